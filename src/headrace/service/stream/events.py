"""Streams what happens in feeds, queues and jobs as server-sent events that continue where a client left off."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, Struct

from headrace.client.codec import RAW
from headrace.feeds.change import Change
from headrace.feeds.queue_events import QueueSubscription
from headrace.feeds.subscription import Subscription
from headrace.model.clock import monotonic_ms
from headrace.model.errors import HeadraceError, Refused
from headrace.model.feed import DIRECTORY, FeedName
from headrace.model.job import check_id
from headrace.model.limits import CURSOR_CHARS_MAX, STREAM_KEEP_ALIVE_S, STREAM_TOPICS_MAX
from headrace.model.redact import redact
from headrace.model.validate import bounded_repr
from headrace.service.caller import RESERVED_PREFIX
from headrace.service.operation import Call, Operation, scopes
from headrace.service.polls import PolledClient
from headrace.service.problems import RequestProblem, problem_of
from headrace.service.queue_names import queue_of_field
from headrace.service.reply import Answer
from headrace.wire.content import JSON_FORMAT, ByteContent, JsonContent, write_content

_BUFFERED = 256
"""Events that wait for a slow reader; its subscription reads on when there is room."""
_CHECK_S = 1.0
_HIDDEN = frozenset(("payload",))
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]


class StreamQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What to follow: `feed:NAME`, `feeds`, `queue:NAME` or `job:QUEUE/ID`; several topics in one stream."""

    LISTS: ClassVar[tuple[str, ...]] = ("topic",)
    topic: list[str]
    last_event_id: str | None = None
    beginning: bool = False
    """Of a queue or job: from the oldest event in the journal."""


class StreamedEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of an event: a change of a feed with its item, or an event of a queue with its fields."""

    topic: str
    event: str
    id: str = ""
    at_ms: int = 0
    seq: int = 0
    item: JsonContent = UNSET
    item_base64: ByteContent = UNSET
    fields: dict[str, Any] | None = None
    reason: str | None = None
    instance: str | None = None


class EventStream:
    """One stream: a subscription for each topic, and one writer."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._topics: list[str] = list(dict.fromkeys(call.query.topic))
        if not 1 <= len(self._topics) <= STREAM_TOPICS_MAX:
            raise RequestProblem("bad_query", f"a stream follows 1 to {STREAM_TOPICS_MAX} topics")
        given = call.headers.get(b"last-event-id")
        text = call.query.last_event_id if given is None else given.decode("latin-1")
        self._cursors: list[str | None] = _read_cursors(text, len(self._topics))
        self._events: asyncio.Queue[bytes | None] = asyncio.Queue(_BUFFERED)

    async def send(self, receive: Any, answer: Answer) -> None:
        """Send events until the client leaves, the token ends, or the service stops."""
        call = self._call
        with call.service.admission.stream(call.tenant):
            subscriptions = [await self._subscription(index) for index in range(len(self._topics))]
            await answer.start_stream(_HEADERS)
            await answer.send_part(b"retry: %d\n\nevent: hello\ndata: {}\n\n" % random.randint(1_000, 5_000))
            loop = asyncio.get_running_loop()
            pumps = [loop.create_task(self._pump(index, each)) for index, each in enumerate(subscriptions)]
            try:
                async with PolledClient(receive) as client_left:
                    async for frame in self._frames(client_left):
                        await answer.send_part(frame)
                        call.service.metrics.stream_events += 1
                    if not client_left.done():
                        await answer.send_part(b"", more=False)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
                for each in subscriptions:
                    await each.aclose()

    async def _subscription(self, index: int) -> "Subscription | QueueSubscription":
        topic, cursor, store = self._topics[index], self._cursors[index], self._call.store
        kind, _, name = topic.partition(":")
        if topic == "feeds":
            return Subscription(store, FeedName(DIRECTORY, self._call.tenant), RAW, cursor=cursor)
        if kind == "feed" and name != DIRECTORY:
            feed = FeedName(name, self._call.tenant)
            self._call.caller.check_feed(feed.name)
            if await store.feeds.describe(feed) is None:
                raise RequestProblem("unknown_feed", f"there is no feed {bounded_repr(name)}; create it first")
            return Subscription(store, feed, RAW, cursor=cursor)
        if kind in ("queue", "job"):
            queue = await queue_of_field(self._call, name.partition("/")[0] if kind == "job" else name)
            if kind == "job":
                check_id(name.partition("/")[2], queue)
            beginning = self._call.query.beginning
            return QueueSubscription(store, queue, cursor, beginning=beginning, heartbeat=None)
        raise RequestProblem(
            "bad_query", f"there is no topic {bounded_repr(topic)}; topics: feed:NAME, feeds, queue:NAME, job:QUEUE/ID"
        )

    async def _pump(self, index: int, subscription: "Subscription | QueueSubscription") -> None:
        try:
            async for change in subscription:
                self._cursors[index] = change.cursor or self._cursors[index]
                if self._is_shown(self._topics[index], change):
                    await self._events.put(self._frame(self._topics[index], change))
        except HeadraceError as error:
            problem = problem_of(error).answer("")
            await self._events.put(b"event: problem\ndata: %b\n\n" % JSON_FORMAT.encode(problem))
        await self._events.put(None)

    def _is_shown(self, topic: str, change: Change) -> bool:
        if topic == "feeds" and change.id:
            return not change.id.startswith(RESERVED_PREFIX) and self._call.caller.may_name(change.id)
        if topic.startswith("job:"):
            return change.event in ("live", "gap") or change.id == topic.partition("/")[2]
        return True

    def _frame(self, topic: str, change: Change) -> bytes:
        value, data = (UNSET, UNSET) if change.raw is None else write_content(change.raw, packed=False)
        event = StreamedEvent(
            topic=topic,
            event=change.event,
            id=change.id,
            at_ms=change.at_ms,
            seq=change.seq,
            item=value,
            item_base64=data,
            fields=_fields(change) if change.raw is None else None,
            reason=change.reason,
            instance=change.instance,
        )
        # Encoded anew: an item may hold line breaks, and a line of data must not.
        body = JSON_FORMAT.encode(event)
        if b"\n" in body or b"\r" in body:
            body = JSON_FORMAT.encode(msgspec.json.decode(body))
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (_write_cursors(self._cursors), change.event.encode(), body)

    async def _frames(self, client_left: "asyncio.Future[None]") -> AsyncIterator[bytes]:
        """Events, and a comment after a while without one; the last is the reason for the end."""
        silent_s, open_topics, check_at_ms = 0.0, len(self._topics), 0
        while not client_left.done():
            if self._call.service.shutdown.is_begun:
                yield b"event: draining\ndata: {}\n\n"
                return
            if not self._call.service.auth.is_current(self._call.caller):
                yield b"event: expired\ndata: {}\n\n"
                return
            if monotonic_ms() >= check_at_ms:
                check_at_ms = monotonic_ms() + round(_CHECK_S * 1_000)
                if await self._is_revoked():
                    yield b"event: expired\ndata: {}\n\n"
                    return
            try:
                frame = await asyncio.wait_for(self._events.get(), _CHECK_S)
            except TimeoutError:
                silent_s += _CHECK_S
                if silent_s >= STREAM_KEEP_ALIVE_S:
                    silent_s = 0.0
                    yield b": keepalive\n\n"
                continue
            silent_s = 0.0
            if frame is not None:
                yield frame
                continue
            open_topics -= 1
            if not open_topics:
                return

    async def _is_revoked(self) -> bool:
        service = self._call.service
        try:
            await service.revocations.check(self._call.caller, service.clock.now_ms())
        except RequestProblem:
            return True
        return False


def _fields(change: Change) -> dict[str, Any] | None:
    """The columns of a queue's event, without payloads and secrets."""
    if not isinstance(change.item, dict):
        return None
    fields = {name: value for name, value in change.item.items() if name not in _HIDDEN}
    if isinstance(fields.get("error_message"), str):
        fields["error_message"] = redact(fields["error_message"])
    return fields


def _write_cursors(cursors: Sequence[str | None]) -> bytes:
    """The id of an event, from which all topics continue."""
    return base64.urlsafe_b64encode(msgspec.json.encode(cursors)).rstrip(b"=")


def _read_cursors(text: str | None, count: int) -> list[str | None]:
    if not text:
        return [None] * count
    try:
        if len(text) > 2 * STREAM_TOPICS_MAX * CURSOR_CHARS_MAX:
            raise ValueError("it is too long")  # noqa: TRY301 - the same refusal as for any other
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        found = msgspec.json.decode(data, type=list[str | None])
        if len(found) != count:
            raise ValueError("it is of other topics")  # noqa: TRY301 - the same
    except (ValueError, msgspec.MsgspecError):
        raise Refused(
            "bad_cursor", "Last-Event-ID is not one that a stream of these topics gave; leave it out to start anew"
        ) from None
    return found


def stream(call: Call) -> Any:
    """Follow topics."""
    return EventStream(call)


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="stream",
        method="GET",
        path="/stream",
        summary="Follow feeds, queues and jobs as server-sent events.",
        scopes=scopes("read"),
        handler=stream,
        query=StreamQuery,
        answers={200: StreamedEvent},
        problems=("unknown_feed", "foreign_queue", "reserved_name", "bad_cursor", "too_many_streams"),
        is_stream=True,
        rate="stream",
    ),
)
