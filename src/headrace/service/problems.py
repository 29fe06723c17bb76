"""Lists the problems that the service answers (RFC 9457), and finds the one for an error."""

from typing import Any

from msgspec import Struct

from headrace.model.errors import OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.redact import redact

PREFIX = "urn:headrace:problem:"


class ProblemType(Struct, frozen=True):
    """A type of problem: the status of its answers, and its title."""

    status: int
    title: str


def _types(status: int, **titles: str) -> dict[str, ProblemType]:
    return {name: ProblemType(status, title) for name, title in titles.items()}


PROBLEMS: dict[str, ProblemType] = {
    **_types(
        400,
        malformed="The body cannot be read",
        too_deep="The body is nested too deeply",
        bad_header="A header is invalid",
        bad_query="The query is invalid",
        bad_path="The path is invalid",
    ),
    **_types(401, unauthorized="The token was not accepted"),
    **_types(
        403,
        missing_scope="The token lacks a scope",
        foreign_queue="The token may not name this queue or feed",
        not_operator="Only an operator may do this",
        reserved_name="The name is reserved",
    ),
    **_types(
        404,
        not_found="There is no such path",
        unknown_job="There is no such job",
        unknown_queue="There is no such queue",
        unknown_feed="There is no such feed",
        unknown_dead_letter="There is no such dead letter",
        unknown_consumer="There is no such consumer",
        unknown_item="There is no such item",
    ),
    **_types(405, method_not_allowed="The path has no such method"),
    **_types(406, not_acceptable="No accepted format is available"),
    **_types(
        409,
        not_active="The job is not active",
        lease_expired="The lease has expired",
        lease_mismatch="The lease belongs to another delivery",
        full="The queue is full",
        wrong_shards="The queue has another number of shards",
        not_empty="The queue is not empty",
        feed_exists="The feed exists",
        wrong_type="The feed is of another type",
        nothing_kept="No result is kept",
        known_item="The item is known",
        unknown_neighbour="The neighbour of the position is unknown",
        read_only="The feed is read-only",
        beyond_journal="The offset is beyond the journal",
    ),
    **_types(412, version_changed="The configuration was changed"),
    **_types(
        413,
        body_too_large="The body is too large",
        batch_too_large="The batch is too large",
        too_large="The answer would be too large",
    ),
    **_types(415, unsupported_media_type="The body has an unknown format"),
    **_types(
        422,
        invalid="A member is invalid",
        unknown_field="A member is unknown",
        idempotency_conflict="The idempotency key was used for other work",
        key_on_batch="A batch takes no Idempotency-Key",
        unconfirmed="The call needs a confirmation",
        ambiguous_id="Several ids begin so",
        no_now="The caller may not choose the time",
        several_queues="Several queues have the job",
        headers_too_large="The headers of the job are too large",
        payload_too_large="The payload is too large",
        result_too_large="The result is too large",
        item_too_large="The item is too large",
        **{
            f"bad_{name}": f"Invalid: {name.replace('_', ' ')}"
            for name in (
                *("backoff_ms", "backoff_ms_max", "batch", "bytes", "config", "consumer", "cursor", "dead_letter"),
                *("delay_ms", "edit", "epoch", "error", "expires_at_ms", "facts", "feed", "flag", "group", "headers"),
                *(
                    "id",
                    "idempotency_key",
                    "idempotency_ttl_ms",
                    "instance",
                    "item",
                    "jitter_ppm",
                    "job",
                    "keep_counts",
                ),
                *("kind", "lease", "lease_ms", "limit", "max_attempts", "max_stalls", "nonce", "outcome", "payload"),
                *("policy", "position", "priority", "queue", "range", "reason", "result", "result_ttl_ms", "run_at_ms"),
                *("run_ms", "seq", "settlement", "shard", "shards", "spread_ms", "state", "tag", "tenant", "time"),
                *("timeout_ms", "token", "type", "version", "wait_ms", "worker"),
            )
        },
    ),
    **_types(
        429,
        rate_limited="Too many requests",
        too_many_polls="Too many requests wait",
        too_many_streams="Too many streams are open",
        auth_failures="Too many tokens were refused",
    ),
    **_types(500, fault="The service has a fault"),
    **_types(
        503,
        store_unavailable="The store cannot be reached",
        busy="The service is busy",
        draining="The service is stopping",
    ),
    **_types(504, outcome_unknown="The outcome is unknown"),
}
"""Every problem by name. A refusal of the model that is not listed here is answered as `invalid`."""

_RENAMED = {"conflict": "idempotency_conflict", "not_found": "unknown_job"}
RETRY_AFTER_S = 1


class ProblemAnswer(Struct, frozen=True, omit_defaults=True):
    """The body of a problem. `detail` is one sentence: what was wanted, what was found, what to do."""

    type: str
    title: str
    status: int
    detail: str
    instance: str = ""
    """The id of the request."""
    reason: str | None = None
    """The reason of a refusal without a problem of its own."""
    errors: list[dict[str, str]] | None = None
    allow: list[str] | None = None
    scope: str | None = None
    limit: int | None = None
    retry_after_ms: int | None = None
    id: str | None = None
    known: list[Any] | None = None
    unknown: list[str] | None = None


class RequestProblem(Exception):
    """Ends a request with a problem; `members` are those of `ProblemAnswer`."""

    def __init__(self, name: str, detail: str, headers: tuple[tuple[bytes, bytes], ...] = (), **members: Any) -> None:
        super().__init__(detail)
        self.name = name
        self.headers = headers
        self.members = members

    @property
    def status(self) -> int:
        """The status of the answer."""
        return PROBLEMS[self.name].status

    def answer(self, request_id: str) -> ProblemAnswer:
        """The body of the answer."""
        found = PROBLEMS[self.name]
        detail = redact(str(self))
        return ProblemAnswer(PREFIX + self.name, found.title, found.status, detail, request_id, **self.members)


def problem_of_refusal(reason: str, message: str) -> RequestProblem:
    """The problem of a refusal."""
    name = _RENAMED.get(reason, reason)
    if name not in PROBLEMS:
        return RequestProblem("invalid", message, reason=reason)
    return RequestProblem(name, message)


def problem_of(error: Exception) -> RequestProblem:
    """The problem to answer for an error; a foreign one is a fault, of which nothing is told."""
    retry = ((b"retry-after", b"%d" % RETRY_AFTER_S),)
    match error:
        case RequestProblem():
            return error
        case Refused(reason="busy"):
            return RequestProblem("busy", str(error), retry)
        case Refused():
            return problem_of_refusal(error.reason, str(error))
        case OutcomeUnknown():
            return RequestProblem(
                "outcome_unknown",
                "the store was asked and did not answer; check, or repeat with the same id, key or nonce",
                unknown=list(error.unknown),
            )
        case StoreUnavailable():
            return RequestProblem("store_unavailable", "the store cannot be reached; try again later", retry)
    return RequestProblem("fault", "the service has a fault; give its operator the id of this request")
