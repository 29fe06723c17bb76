"""Folds a journal into the state of its shard, from the events alone: an independent check."""

from collections import Counter

from headrace.model.event import Event
from headrace.model.job import State
from headrace.model.results import SnapshotRow


class Folded:
    """The state of a shard by its journal, read from the beginning. Impossible events fail at once."""

    def __init__(self) -> None:
        self.live: dict[str, tuple[State, int | None]] = {}
        self.blocked_jobs: set[str] = set()
        self.over: dict[str, State] = {}
        self.dead_letters: dict[int, str] = {}
        self.fences: dict[str, int] = {}
        self.numbers: set[int] = set()

    def add(self, event: Event) -> None:  # noqa: PLR0912 - one branch per event, side by side on purpose
        """Take one event."""
        line, id = event.line, event.line.id or ""
        match line.event:
            case "enqueued" | "replayed":
                assert id not in self.live, f"{line.event} {id} while it is live"
                self.live[id] = (State.WAITING, None)
                self.over.pop(id, None)
                if line.event == "replayed":
                    assert self.dead_letters.pop(line.dead_letter or 0, None) == id, (
                        f"replayed {id} without its dead letter"
                    )
            case "updated" | "merged":
                assert self.live.get(id) == (State.WAITING, None), f"{line.event} {id} which does not wait"
                if line.event == "merged":
                    self.blocked_jobs.remove(id)
            case "blocked":
                assert self._state(id) is State.ACTIVE, f"blocked {id} without an active job"
                self.blocked_jobs.add(id)
            case "unblocked":
                assert id not in self.live, f"unblocked {id} while it is live"
                self.blocked_jobs.remove(id)
                self.live[id] = (State.WAITING, None)
            case "claimed":
                assert self._state(id) is State.WAITING, f"claimed {id} which does not wait"
                fence = line.fence or 0
                assert fence > self.fences.get(id, 0), f"fence {fence} of {id} does not grow"
                self.fences[id] = fence
                self.live[id] = (State.ACTIVE, fence)
            case "retried" | "released" | "stalled":
                self._end_delivery(event)
                self.live[id] = (State.WAITING, None)
            case "done":
                self._end_delivery(event)
                self.over[id] = State.DONE
            case "dead":
                if line.fence is None:
                    assert self._state(id) is State.WAITING, f"expired {id} which does not wait"
                    del self.live[id]
                else:
                    self._end_delivery(event)
                dead_letter = line.dead_letter or 0
                assert dead_letter not in self.numbers, (
                    f"dead letter {dead_letter} of {id} has a number that was used before"
                )
                self.numbers.add(dead_letter)
                self.dead_letters[dead_letter] = id
            case "asked":
                assert self.live.get(id) == (State.ACTIVE, line.fence), f"asked {id} which is not active"
            case "cancelled":
                self._cancel(event)
            case "removed":
                stood = self._state(id)
                assert line.reason == (None if stood is None else stood.value), f"removed {id} as {line.reason}"
                assert (line.kind is None) is (stood is None), f"removed {id} of kind {line.kind}"
                self.live.pop(id, None)
                self.blocked_jobs.discard(id)
                self.over.pop(id, None)
                self.dead_letters = {number: each for number, each in self.dead_letters.items() if each != id}
            case "purged":
                if line.dead_letter is not None:
                    assert self.dead_letters.pop(line.dead_letter, None) == id, (
                        f"purged a dead letter of {id} that is not there"
                    )
                else:
                    assert self._state(id) is State.WAITING, f"purged {id} which does not wait"
                    del self.live[id]
            case "configured":
                pass

    def _state(self, id: str) -> State | None:
        found = self.live.get(id)
        return None if found is None else found[0]

    def _end_delivery(self, event: Event) -> None:
        id, fence = event.line.id or "", event.line.fence
        assert self.live.get(id) == (State.ACTIVE, fence), f"{event.line.event} {id} by fence {fence}, not its holder"
        del self.live[id]

    def _cancel(self, event: Event) -> None:
        id = event.line.id or ""
        is_blocked_job = event.line.fence is None and self._state(id) is State.ACTIVE
        assert event.line.reason == ("blocked" if is_blocked_job else None), f"cancelled {id} as {event.line.reason}"
        if event.line.fence is not None:
            self._end_delivery(event)
            self.over[id] = State.CANCELLED
        elif is_blocked_job:
            self.blocked_jobs.remove(id)
        else:
            assert self._state(id) is State.WAITING, f"cancelled {id} which does not wait"
            del self.live[id]
            self.over[id] = State.CANCELLED

    def check(self, rows: list[SnapshotRow]) -> None:
        """Fail unless the rows equal the folded journal. Finished jobs may be missing, but never additional."""
        live = {row.id: (row.state, row.fence) for row in rows if row.state in (State.WAITING, State.ACTIVE)}
        blocked_jobs = Counter(row.id for row in rows if row.state is State.BLOCKED)
        dead_letters = {row.dead_letter: row.id for row in rows if row.state is State.DEAD}
        over = {row.id: row.state for row in rows if row.state in (State.DONE, State.CANCELLED)}
        assert live == self.live
        assert blocked_jobs == Counter(self.blocked_jobs)
        assert dead_letters == self.dead_letters
        assert over.items() <= self.over.items()
