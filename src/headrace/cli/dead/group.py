"""The group of commands about dead letters, the options that several of them have, and what they choose."""

from typing import Annotated, get_args

import typer
from msgspec import Struct

from headrace.cli.parse import past_ms
from headrace.model.decision import Reason
from headrace.model.errors import Refused
from headrace.model.validate import bounded_repr, check_storable
from headrace.stores.contract.dead_letters import DeadLetterFilter

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

REASONS: tuple[str, ...] = get_args(Reason)
OfId = Annotated[str | None, typer.Option("--id", help="Only dead letters of this job.")]
Kind = Annotated[str | None, typer.Option("--kind", help="Only dead letters of this kind.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only dead letters with this tag.")]
OfReason = Annotated[str | None, typer.Option("--reason", help=f"Why they died: {', '.join(REASONS)}.")]
ErrorClass = Annotated[
    str | None, typer.Option("--error-class", help="Only dead letters of this error, as in ValueError.")
]
Since = Annotated[str | None, typer.Option("--since", metavar="TIME", help="Died since: 30m, 2d, or an instant.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Died until: 30m, 2d, or an instant.")]
Everything = Annotated[bool, typer.Option("--all", help="Without a filter: all of them.")]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID|DEAD_LETTER]...",
        help="Jobs, whose newest dead letter is meant, or dead letters as the list shows them (0:17).",
    ),
]


class Meant(Struct, frozen=True, kw_only=True):
    """Which dead letters a person means by filter."""

    id: str | None = None
    kind: str | None = None
    tag: str | None = None
    reason: str | None = None
    error_class: str | None = None
    since: str | None = None
    until: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """The filters that were given, by the name of their option."""
        names = [(name.replace("_", "-"), getattr(self, name)) for name in self.__struct_fields__]
        return {name: value for name, value in names if value is not None}

    def check(self) -> None:
        """Refuse a reason that nothing dies of, and text that no dead letter can hold."""
        for option, text in self.given.items():
            check_storable(option, text)
        if self.reason is not None and self.reason not in REASONS:
            raise Refused(
                "bad_reason", f"no job dies of {bounded_repr(self.reason)}; the reasons are {', '.join(REASONS)}"
            )

    def where(self, now_ms: int, *, died_before_ms: int | None = None) -> DeadLetterFilter:
        """The filter of the store, with a bound of our own; raises `Refused` for a time that is none."""
        until_ms = None if self.until is None else past_ms("until", self.until, now_ms)
        bounds_ms = [each for each in (until_ms, died_before_ms) if each is not None]
        return DeadLetterFilter(
            id=self.id,
            kind=self.kind,
            tag=self.tag,
            reason=self.reason,
            error_class=self.error_class,
            # The store leaves out its lower bound; who says since when means that instant too.
            died_after_ms=None if self.since is None else past_ms("since", self.since, now_ms) - 1,
            died_before_ms=min(bounds_ms, default=None),
        )
