"""Reads the body and the query of a request: size, compression, format, UTF-8 and depth first, then the members."""

import re
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from headrace.model.limits import GZIP_RATIO_MAX, JSON_DEPTH_MAX, REQUEST_QUERY_BYTES_MAX
from headrace.model.validate import nearest
from headrace.service.operation import Operation
from headrace.service.problems import RequestProblem
from headrace.wire.content import FORMATS, JSON_FORMAT, Format

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = [1 if byte in b"[{" else -1 if byte in b"]}" else 0 for byte in range(256)]
_PEELS = 8
"""Levels that are removed before strings are: nearly all bodies are settled by then, at the speed of C."""
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`(?: - at `\$(.*)`)?", re.DOTALL)
_AT = re.compile(r"(.*) - at `\$(.*)`", re.DOTALL)


async def read_body(receive: Receive, bytes_max: int) -> bytes:
    """The whole body; refuses a longer one before it is read to its end."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client left before its request was whole")
        part = message.get("body", b"")
        size += len(part)
        if size > bytes_max:
            raise _too_large(bytes_max)
        parts.append(part)
        if not message.get("more_body"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def unzip(body: bytes, bytes_max: int) -> bytes:
    """The contents of a gzip body, within the bound and within a ratio that no honest body exceeds."""
    bound = min(bytes_max, len(body) * GZIP_RATIO_MAX)
    reader = zlib.decompressobj(wbits=31)
    try:
        found = reader.decompress(body, bound + 1)
    except zlib.error as error:
        raise RequestProblem("malformed", "the body is not gzip; send it as its Content-Encoding says") from error
    if len(found) > bound:
        raise _too_large(bytes_max)
    if not reader.eof or reader.unused_data:
        raise RequestProblem("malformed", "the gzip body is not whole; send one complete member")
    return found


@lru_cache(maxsize=64)
def format_of(content_type: bytes | None) -> Format:
    """The format of a body."""
    if content_type is None:
        raise RequestProblem("unsupported_media_type", "the request names no Content-Type; send application/json")
    media, _, parameters = content_type.decode("latin-1").partition(";")
    found = FORMATS.get(media.strip().lower())
    charset = parameters.strip().lower().replace('"', "")
    if found is None or (charset and charset != "charset=utf-8"):
        raise RequestProblem(
            "unsupported_media_type", "the body must be application/json in UTF-8 or application/msgpack; send one"
        )
    return found


def decode_body(operation: Operation, body: bytes, form: Format) -> Any:
    """The body as the operation's type; raises `RequestProblem` for any other."""
    if not form.is_packed:
        if not body.isascii():
            try:
                body.decode()
            except UnicodeDecodeError as error:
                raise RequestProblem(
                    "malformed", f"the body is not UTF-8 at byte {error.start}; encode it so"
                ) from None
        if is_too_deep(body):
            raise RequestProblem("too_deep", f"the body has more than {JSON_DEPTH_MAX} levels; send a flatter one")
    return decode(_decoder(operation.name, operation.body, form), body, operation.body)


def decode(decoder: Any, body: bytes | msgspec.Raw, kind: Any) -> Any:
    """What a decoder makes of a body; raises `RequestProblem` for an invalid one."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid(str(error), kind) from None
    except RecursionError:
        raise RequestProblem("too_deep", "the body is nested too deeply; send a flatter one") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestProblem("malformed", f"the body cannot be read: {error}; send one valid document") from None


def invalid(text: str, kind: Any) -> RequestProblem:
    """The problem of a body of another form than `kind`."""
    if (found := _UNKNOWN.fullmatch(text)) is not None:
        name, at = found[1], found[2] or ""
        near = nearest(name, getattr(kind, "__struct_encode_fields__", ()))
        hint = f"did you mean {near!r}?" if near else "leave it out"
        shown = name[:100]
        return RequestProblem(
            "unknown_field",
            f"the member {shown!r} is not known; {hint}",
            errors=[{"at": at + "." + shown, "message": hint}],
        )
    at, message = "", text
    if (found := _AT.fullmatch(text)) is not None:
        message, at = found[1], found[2]
    where = f" at {at.lstrip('.')}" if at else ""
    return RequestProblem(
        "invalid", f"the request is invalid{where}: {message}", errors=[{"at": at, "message": message}]
    )


def read_query(operation: Operation, query: bytes) -> Any:
    """The query as the operation's type; refuses unknown and repeated parameters."""
    if not query:
        return _empty_query(operation.query)
    if len(query) > REQUEST_QUERY_BYTES_MAX:
        raise RequestProblem("bad_query", f"the query has more than {REQUEST_QUERY_BYTES_MAX:,} bytes; shorten it")
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise RequestProblem("bad_query", "the query is not name=value pairs in UTF-8; write it so") from None
    values: dict[str, Any] = {}
    lists = getattr(operation.query, "LISTS", ())
    for name, value in pairs:
        if name in lists:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise RequestProblem("bad_query", f"the parameter {name[:100]!r} is given twice; give it once")
        else:
            values[name] = value
    return _convert_query(operation.query, values)


def _convert_query(kind: Any, values: dict[str, Any]) -> Any:
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        found = invalid(str(error), kind)
        raise RequestProblem("bad_query", str(found).replace("member", "parameter"), **found.members) from None


@cache
def _empty_query(kind: Any) -> Any:
    try:
        return kind()
    except TypeError:
        return _convert_query(kind, {})


@cache
def _decoder(_: str, kind: Any, form: Format) -> Any:
    return form.decoder(kind)


def is_too_deep(body: bytes, depth_max: int = JSON_DEPTH_MAX) -> bool:
    """Whether a JSON text has more levels than `depth_max`. Brackets in strings do not count."""
    brackets = body.translate(None, _NOT_BRACKETS)
    if len(brackets) <= depth_max:
        return False
    for _ in range(_PEELS):
        fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if not fewer:
            return False
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > depth_max


def _too_large(bytes_max: int) -> RequestProblem:
    return RequestProblem(
        "body_too_large", f"the body has more than {bytes_max:,} bytes; send it in parts", limit=bytes_max
    )


@lru_cache(maxsize=64)
def accepted_format(accept: bytes | None) -> Format:
    """The format of the answer."""
    if accept is None:
        return JSON_FORMAT
    wanted = [each.partition(b";")[0].strip().lower() for each in accept.split(b",")]
    for media in wanted:
        if media == b"application/msgpack":
            return FORMATS["application/msgpack"]
        if media in (b"application/json", b"application/*", b"*/*", b"application/problem+json", b"text/event-stream"):
            return JSON_FORMAT
    raise RequestProblem(
        "not_acceptable", "answers are application/json or application/msgpack; accept one of them in the request"
    )
