"""Answers about the caller, its limits, and the store's clock."""

from msgspec import Struct

from headrace.model.limits import BATCH_MAX, POLL_MS_MAX, REQUEST_BATCH_BYTES_MAX, REQUEST_BYTES_MAX


class LimitsAnswer(Struct, frozen=True):
    """Limits that a caller may want to know."""

    batch_max: int = BATCH_MAX
    wait_ms_max: int = POLL_MS_MAX
    body_bytes_max: int = REQUEST_BYTES_MAX
    batch_bytes_max: int = REQUEST_BATCH_BYTES_MAX


class MeAnswer(Struct, frozen=True, kw_only=True):
    """The caller, as its token says."""

    tenant: str
    subject: str
    scopes: list[str]
    queues: list[str] | None
    operator: bool
    expires_at_s: int
    """When the token ends."""
    limits: LimitsAnswer = LimitsAnswer()


class NowAnswer(Struct, frozen=True):
    """The store's clock."""

    now_ms: int


class TenantRows(Struct, frozen=True):
    """A page of tenants, for operators."""

    rows: list[str]
    cursor: str | None
