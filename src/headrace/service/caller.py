"""The caller of a request, as its token says: tenant, subject, scopes, and the queues it may name."""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.feed import DIRECTORY
from headrace.model.limits import SUBJECT_CHARS_MAX, WORKER_CHARS_MAX
from headrace.model.names import check_tenant
from headrace.service.problems import RequestProblem
from headrace.wire.content import subject_prefix

SCOPES: Final = ("enqueue", "claim", "read", "feeds", "admin", "operator")
RESERVED_PREFIX: Final = "headrace."
"""Begins the names of feeds that the service keeps for itself."""


class Caller(Struct, frozen=True):
    """A caller whose token was accepted."""

    tenant: str
    subject: str
    scopes: frozenset[str]
    expires_at_s: int
    issuer: str = ""
    queues: tuple[str, ...] | None = None
    """Names, or beginnings with `*`, of the queues and feeds that it may name; None is all."""
    token_id: str | None = None
    is_operator: bool = False
    crossed_from: "Caller | None" = None
    """The caller as its token says, for an operator in another tenant."""

    @property
    def home_tenant(self) -> str:
        """The tenant of the token itself."""
        return self.tenant if self.crossed_from is None else self.crossed_from.tenant

    @property
    def issued_to(self) -> str:
        """The subject of the token itself."""
        return self.subject if self.crossed_from is None else self.crossed_from.subject

    def check_scope(self, scopes: frozenset[str]) -> None:
        """Refuse a caller that has none of the scopes; no scopes at all means that every caller may."""
        if scopes and not scopes & self.scopes:
            names = " or ".join(sorted(scopes))
            raise RequestProblem(
                "missing_scope", f"this needs the scope {names}; use a token with it", scope=" ".join(sorted(scopes))
            )

    def check_name(self, full_name: str) -> None:
        """Refuse the name of a queue or feed that the token does not cover; unknown ones are refused alike."""
        if self.queues is not None and not any(_covers(pattern, full_name) for pattern in self.queues):
            raise RequestProblem(
                "foreign_queue", "the token may not name this queue or feed; use one of those in its claim 'queues'"
            )

    def check_feed(self, name: str) -> None:
        """The same for a feed; refuses the names that are reserved for the service, too."""
        if name.startswith(RESERVED_PREFIX):
            raise RequestProblem(
                "reserved_name", f"feeds whose names begin with {RESERVED_PREFIX!r} belong to the service; use another"
            )
        if name != DIRECTORY or self.queues is not None:
            self.check_name(name)

    def cross(self, tenant: str) -> "Caller":
        """An operator as a caller of another tenant."""
        check_tenant(tenant)
        return replace(self, tenant=tenant, subject=f"operator:{self.subject}"[:SUBJECT_CHARS_MAX], crossed_from=self)

    def may_name(self, full_name: str) -> bool:
        """Whether the token covers a queue or feed."""
        return self.queues is None or any(_covers(pattern, full_name) for pattern in self.queues)

    def worker(self, name: str) -> str:
        """The name of a worker in the journal: it begins with the subject, so that nobody appears as somebody else."""
        prefix = subject_prefix(self.subject)
        whole = name if name.startswith(prefix) else prefix + name
        return whole if len(whole) <= WORKER_CHARS_MAX else whole[:WORKER_CHARS_MAX]


def _covers(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
