"""Which jobs are meant: a filter over what a list shows of them."""

from msgspec import Struct

from headrace.cli.job_scan import Seen
from headrace.cli.parse import past_ms


class JobFilter(Struct, frozen=True, kw_only=True):
    """Which jobs are meant; None matches all. Times are `enqueued_after_ms <= enqueued_at_ms <= enqueued_before_ms`."""

    text: str | None = None
    """Somewhere in id, kind, tag, error or payload, whatever the case."""
    kind: str | None = None
    tag: str | None = None
    id_prefix: str | None = None
    payload: str | None = None
    """Somewhere in the payload; a finished job has none."""
    enqueued_after_ms: int | None = None
    enqueued_before_ms: int | None = None

    def matches(self, seen: Seen) -> bool:
        """Whether the job is meant."""
        body = seen.body
        return (
            (self.kind is None or self.kind == body.kind)
            and (self.tag is None or self.tag == body.tag)
            and (self.id_prefix is None or body.id.startswith(self.id_prefix))
            and (self.enqueued_after_ms is None or body.enqueued_at_ms >= self.enqueued_after_ms)
            and (self.enqueued_before_ms is None or body.enqueued_at_ms <= self.enqueued_before_ms)
            and (self.payload is None or self.payload in _payload(seen))
            and (self.text is None or self._mentioned(seen))
        )

    def _mentioned(self, seen: Seen) -> bool:
        wanted, body, error = (self.text or "").casefold(), seen.body, seen.error
        texts = [body.id, body.kind, body.tag or ""]
        texts += [] if error is None else [error.cls, error.message]
        return any(wanted in text.casefold() for text in texts) or wanted in _payload(seen).casefold()


def job_filter(
    now_ms: int,
    *,
    older_than: str | None = None,
    newer_than: str | None = None,
    text: str | None = None,
    kind: str | None = None,
    tag: str | None = None,
    id_prefix: str | None = None,
    payload: str | None = None,
) -> JobFilter:
    """The filter that a person gave; raises `Refused` for a time that is none."""
    return JobFilter(
        text=text,
        kind=kind,
        tag=tag,
        id_prefix=id_prefix,
        payload=payload,
        enqueued_after_ms=None if newer_than is None else past_ms("newer_than", newer_than, now_ms),
        enqueued_before_ms=None if older_than is None else past_ms("older_than", older_than, now_ms),
    )


def _payload(seen: Seen) -> str:
    return "" if seen.record is None else seen.record.payload.decode(errors="replace")
