"""Codecs: how a value becomes the bytes of a payload or a result, and comes back. Never pickle."""

import reprlib
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from headrace.client.foreign import from_json_value, holds_no_number, to_json_value
from headrace.model.errors import Refused
from headrace.model.validate import bounded_repr


class Codec(Protocol):
    """Makes bytes of values and values of bytes. `name` says which one in messages; both ends must use the same."""

    @property
    def name(self) -> str:
        """What messages call it."""

    def encode(self, value: object) -> bytes:
        """The value as bytes; raises `Refused` (`bad_payload`) for one that this codec cannot carry."""

    def decode(self, data: bytes, type: Any = Any) -> Any:
        """The value of these bytes, as `type`; raises `Refused` (`bad_payload`) when they hold something else."""


class JsonCodec:
    """JSON. Every JSON value comes back as it was; dataclasses, structs, datetimes and the like come back as `type`."""

    name = "json"

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(enc_hook=to_json_value).encode

    def __reduce__(self) -> str:
        return "JSON"  # an encoder cannot be pickled, and one is enough

    def encode(self, value: object) -> bytes:
        try:
            data = self._encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
            raise Refused(
                "bad_payload", f"{reprlib.repr(value)} cannot be written as JSON ({error}); send JSON values"
            ) from error
        # JSON has no infinity and no NaN; the encoder would write null for them and say nothing.
        if b"null" in data and holds_no_number(value):
            raise Refused(
                "bad_payload", f"{reprlib.repr(value)} holds a number that JSON cannot write; send null instead"
            )
        return data

    def decode(self, data: bytes, type: Any = Any) -> Any:
        try:
            return (_decoder(type) if type.__hash__ else _new_decoder(type)).decode(data)
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise Refused("bad_payload", f"{reprlib.repr(data)} is not the JSON that was wanted: {error}") from error


class RawCodec:
    """Bytes as they are, for payloads that the caller encodes."""

    name = "raw"

    def __reduce__(self) -> str:
        return "RAW"

    def encode(self, value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        raise Refused(
            "bad_payload", f"the codec 'raw' takes bytes; found {type(value).__name__} {reprlib.repr(value)}; encode it"
        )

    def decode(self, data: bytes, type: Any = Any) -> Any:
        if type in (Any, object, bytes):
            return data
        raise Refused(
            "bad_payload", f"the codec 'raw' gives bytes; {bounded_repr(type)} was wanted; decode the bytes yourself"
        )


JSON = JsonCodec()
RAW = RawCodec()


@lru_cache(maxsize=1_024)
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return _new_decoder(type)


def _new_decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type, dec_hook=from_json_value)
