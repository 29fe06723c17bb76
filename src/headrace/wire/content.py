"""Carries payloads, results and items: JSON values as they are, other bytes as base64, or as bytes in MessagePack."""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType, field

from headrace.model.errors import Refused
from headrace.model.outcome import JobError
from headrace.model.redact import redact

JsonContent = Raw | UnsetType
"""A JSON value, kept byte for byte."""
ByteContent = bytes | UnsetType
"""Bytes of any codec: base64 in JSON, bytes in MessagePack."""


class Format(msgspec.Struct, frozen=True):
    """A format of bodies, with its encoder."""

    media_type: str
    is_packed: bool
    """Whether bodies are MessagePack, where content is always bytes."""

    def encode(self, value: object) -> bytes:
        """The body of a value."""
        return (_PACK if self.is_packed else _JSON).encode(value)

    def decoder(self, kind: Any) -> "msgspec.json.Decoder[Any] | msgspec.msgpack.Decoder[Any]":
        """A decoder of bodies of that type."""
        return msgspec.msgpack.Decoder(kind) if self.is_packed else msgspec.json.Decoder(kind)


_JSON = msgspec.json.Encoder()
_PACK = msgspec.msgpack.Encoder()
JSON_FORMAT = Format("application/json", False)
PACKED_FORMAT = Format("application/msgpack", True)
FORMATS = {each.media_type: each for each in (JSON_FORMAT, PACKED_FORMAT)}


def read_content(what: str, value: JsonContent, data: ByteContent, *, packed: bool) -> bytes | None:
    """The bytes of a payload, result or item; None when it was left out.

    Refuses two values at once, a JSON value in MessagePack, and JSON that no worker could decode.
    """
    if value is UNSET:
        return None if data is UNSET else data
    if data is not UNSET:
        raise Refused("bad_" + what, f"the request has both {what} and {what}_base64; give one of them")
    if packed:
        raise Refused("bad_" + what, f"MessagePack carries no JSON value in {what}; send its bytes as {what}_base64")
    encoded = bytes(value)
    if (problem := _json_problem(encoded)) is not None:
        raise Refused("bad_" + what, f"{what} is not JSON that a worker can read ({problem}); send other JSON")
    return encoded


def write_content(data: bytes | None, *, packed: bool) -> tuple[JsonContent, ByteContent]:
    """The two members of a payload, result or item, of which one is set; for None, JSON's null."""
    if data is None:
        return (UNSET, UNSET) if packed else (Raw(b"null"), UNSET)
    if packed or _json_problem(data) is not None:
        return UNSET, data
    return Raw(data), UNSET


class ErrorBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An error of a handler: a class for grouping, a message for people."""

    class_: str = field(name="class")
    message: str = ""

    @staticmethod
    def of(error: JobError) -> "ErrorBody":
        """The body of an error, without secrets."""
        return ErrorBody(error.cls, redact(error.message))

    def job_error(self) -> JobError:
        """The error, with texts cut to their limits."""
        return JobError.of(self.class_, self.message)


def _json_problem(data: bytes) -> str | None:
    try:
        msgspec.json.decode(data)
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:  # also bytes that are not UTF-8
        return str(error)
    return None


def subject_prefix(subject: str) -> str:
    """What names of workers and instances of a subject begin with. Its own slashes are quoted: `a` with a worker `b/w`
    must not appear as the worker `w` of `a/b`."""
    return subject.replace("%", "%25").replace("/", "%2F") + "/"
