"""Says where the payload of an event may still be: pure, from the events that are read together."""

from collections.abc import Sequence

from msgspec import Struct

LIVE, BLOCKED_JOB = "live", "blocked_job"
"""The job that waits or runs (or its dead letter, if it has died since), and the blocked job behind an active one."""
_WROTE = frozenset({"enqueued", "updated", "merged", "unblocked", "replayed"})
_GONE = frozenset({"done", "cancelled", "removed", "purged"})


class Holder(Struct, frozen=True, gc=False):
    """Where to look: first the dead letters of these numbers, then one of `LIVE` and `BLOCKED_JOB`."""

    dead_letters: tuple[int, ...] = ()
    then: str | None = None


class PayloadHolder(Struct, frozen=True, gc=False):
    """What has to be known of an event."""

    event: str
    key: tuple[str, str, str]
    """Tenant, queue and id."""
    reason: str | None
    dead_letter: int | None


class _Story:
    """What is known of an id behind an event, while its events are gone through from the last to the first."""

    __slots__ = ("blocked_job", "finished_job_is_own", "held", "replayed")

    def __init__(self) -> None:
        self.held: Holder | None = Holder((), LIVE)
        self.blocked_job: Holder | None = Holder((), BLOCKED_JOB)
        self.replayed: dict[int, Holder | None] = {}
        self.finished_job_is_own = True


def holders(events: Sequence[PayloadHolder]) -> tuple[list[Holder | None], list[bool]]:
    """For each event, in the order of the journal: where its payload may be, None when it can be nowhere; and whether
    a finished job that the store holds may be its own.

    The store holds one payload of a job. An event that a later one has replaced, or whose job has ended since, has none
    left: what stands there under the same id is another's.
    """
    stories: dict[tuple[str, str, str], _Story] = {}
    found: list[Holder | None] = []
    finished_jobs: list[bool] = []
    for told in reversed(events):
        story = stories.get(told.key)
        if story is None:
            story = stories[told.key] = _Story()
        finished_jobs.append(told.event == "done" and story.finished_job_is_own)
        found.append(_taken(story, told))
    return found[::-1], finished_jobs[::-1]


def _taken(story: _Story, told: PayloadHolder) -> Holder | None:
    """Where the payload of the event is; the story is then as it was before it."""
    held = story.held
    match told.event:
        case "dead":
            number = told.dead_letter or 0
            after = story.replayed.pop(number, held)
            story.held = Holder((number,)) if after is None else Holder((number, *after.dead_letters), after.then)
            return story.held
        case "blocked":
            held, story.blocked_job = story.blocked_job, None
            return held
        case "cancelled" if told.reason == "blocked":
            story.blocked_job = None
        case "purged" if told.dead_letter is not None:
            pass
        case event if event in _GONE:
            story.held, story.finished_job_is_own = None, False
            # The blocked job of a job that is over goes its own way, unless everything was removed.
            if event == "removed":
                story.blocked_job = None
        case event if event in _WROTE:
            if event == "replayed":
                story.replayed[told.dead_letter or 0] = held
            story.held = None
            # What a freed blocked job holds, the enqueue that was blocked has brought; any other blocked job was of
            # another life.
            story.blocked_job = held if event == "unblocked" else None
            return held
    return None
