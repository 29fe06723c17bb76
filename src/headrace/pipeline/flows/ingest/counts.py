"""What became of the rows of an ingest, or would become of them."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from headrace.pipeline.source.sink.result import Written

DONE = ("created", "updated", "blocked", "duplicate", "folded")
"""What became of rows that were not refused."""


class Ingested(Struct, frozen=True, kw_only=True):
    """What became of the rows. Every row is counted once: the counts and those of `refused` add up to `rows`.

    Of a dry run: the rows that would be `jobs` (each once), `folded` into another row, or refused by us, or as a
    `conflict` with another row; what the store would say only a write finds out.
    """

    name: str
    run: str = ""
    """The id of the write in its feed of reports."""
    rows: int = 0
    created: int = 0
    """Jobs that are new."""
    updated: int = 0
    """Jobs that were waiting under the row's id, and were changed."""
    blocked: int = 0
    """Jobs that wait behind their active namesake."""
    duplicate: int = 0
    """Rows that an earlier run has written, so that nothing was done."""
    folded: int = 0
    """Rows with the key of another row of this run, so that both are one job."""
    refused: dict[str, int] = {}
    """Rows that are no job, by reason."""
    examples: dict[str, str] = {}
    """A sentence for each reason."""
    refused_folder: str | None = None
    """Where the refused rows are kept; `read_refused` reads them."""
    exact: bool = True
    """False beyond 20 million rows: then created is at least so much, and folded at most."""
    dry: bool = False
    """Whether nothing was written."""
    jobs: int = 0
    """Of a dry run: jobs that these rows are."""
    known: int = 0
    """Of a dry run: how many of these jobs the store has under their ids now: waiting, running, ended or dead."""
    samples: list[str] = []
    """Of a dry run: a few of these jobs, as JSON."""
    started_at_ms: int = 0
    ended_at_ms: int = 0

    def __str__(self) -> str:
        return self.sentence()

    def counts(self) -> dict[str, int]:
        """What was not refused, by what became of it."""
        if self.dry:
            return {"jobs": self.jobs, "folded": self.folded}
        return {name: getattr(self, name) for name in DONE}

    def sentence(self) -> str:
        """The counts for a person, with an example of what was refused."""
        verb = "would be" if self.dry else "were"
        parts = [f"{count:,} {name}" for name, count in self.counts().items() if count]
        told = f"of {self.rows:,} rows {', '.join(parts)}" if parts else f"of {self.rows:,} rows none is a job"
        told += f" ({self.known:,} of them known to the store)" if self.known else ""
        told += "" if self.exact else " (at least, folded at most)"
        if not self.refused:
            return told
        refused = ", ".join(f"{reason} {count:,}" for reason, count in sorted(self.refused.items()))
        example = self.examples[max(self.refused, key=lambda reason: self.refused[reason])]
        return f"{told}, {sum(self.refused.values()):,} {verb} refused ({refused}); for example: {example}"


def of_writes(name: str, writes: Iterable[Written], refused_folder: str | None) -> Ingested:
    """What some writes of one ingest come to together: one of a batch, many of a stream."""
    counts, refused = Counter[str](), Counter[str]()
    examples: dict[str, str] = {}
    found = sorted(writes, key=lambda write: write.started_at_ms)
    for write in found:
        counts += Counter({name: getattr(write, name) for name in ("rows", *DONE)})
        refused += Counter(write.refused)
        examples = write.examples | examples
    added: dict[str, Any] = dict(counts)
    return Ingested(
        name=name,
        run=found[0].run if len(found) == 1 else "",
        **added,
        refused=dict(refused),
        examples=examples,
        refused_folder=refused_folder if refused else None,
        exact=all(write.exact for write in found),
        started_at_ms=found[0].started_at_ms if found else 0,
        ended_at_ms=found[-1].ended_at_ms if found else 0,
    )
