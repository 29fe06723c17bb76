"""A job that was sent in a test, with its arguments as the handler gets them."""

import inspect
from typing import Any

from msgspec import Struct

from headrace.client.codec import Codec
from headrace.model.errors import Refused
from headrace.model.job import Record
from headrace.model.names import Queue
from headrace.worker.handlers import Handler


class SentRecord(Struct, frozen=True):
    """An enqueue in the call log."""

    queue: Queue
    record: Record
    at_ms: int


class SentJob(Struct, frozen=True):
    """A job enqueued while the kit was open. A job that was sent again before its claim is one job."""

    id: str
    kind: str
    queue: Queue
    arguments: dict[str, Any]
    """By name, as the handler's annotations read them; `{"payload": …}` for a kind that the app does not handle."""
    delay_ms: int
    """From the enqueue until it was due."""
    record: Record
    """The record in the store."""

    @property
    def tag(self) -> str | None:
        """Its tag."""
        return self.record.tag

    @property
    def headers(self) -> dict[str, str]:
        """Its headers."""
        return self.record.headers


def sent_job(sent: SentRecord, handler: Handler | None, codec: Codec) -> SentJob:
    """A job of the call log with its decoded arguments."""
    record = sent.record
    arguments = (
        {"payload": _decode_or_bytes(codec, record.payload)}
        if handler is None
        else named_arguments(handler, record.payload)
    )
    return SentJob(record.id, record.kind, sent.queue, arguments, record.run_at_ms - sent.at_ms, record)


def named_arguments(handler: Handler, payload: bytes) -> dict[str, Any]:
    """The arguments in a payload by name, as the annotations read them; or the payload itself when it does not fit."""
    try:
        args, kwargs = handler.arguments.decode(payload)
    except Refused:
        return {"payload": _decode_or_bytes(handler.codec, payload)}
    return dict(zip(parameters(handler), args, strict=False)) | kwargs


def parameters(handler: Handler) -> dict[str, inspect.Parameter]:
    """The parameters of a handler by name, without `**kwargs`."""
    found = inspect.signature(handler.function).parameters
    return {name: each for name, each in found.items() if each.kind is not inspect.Parameter.VAR_KEYWORD}


def takes_any(handler: Handler) -> bool:
    """Whether a handler has `**kwargs`."""
    found = inspect.signature(handler.function).parameters.values()
    return any(each.kind is inspect.Parameter.VAR_KEYWORD for each in found)


def _decode_or_bytes(codec: Codec, payload: bytes) -> Any:
    try:
        return codec.decode(payload)
    except Refused:
        return payload
