"""Encodes the values of payloads and results as bytes, and decodes them: JSON, or raw bytes; never pickle."""

import math
import reprlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Protocol

import msgspec

from headrace.model.errors import Refused
from headrace.model.validate import bounded_repr, cut

ERRORS_SHOWN_MAX = 3
SENDABLE = "JSON values, dataclasses, msgspec structs, pydantic models, enums, datetimes, UUIDs and paths can be sent"


class Codec(Protocol):
    """Encodes values as bytes and decodes them. `name` is for error messages; sender and worker must use the same
    codec."""

    @property
    def name(self) -> str:
        """Its name in error messages."""

    def encode(self, value: object) -> bytes:
        """The value as bytes; raises `Refused` (`bad_payload`) if this codec cannot encode it."""

    def decode(self, data: bytes, type: Any = Any) -> Any:
        """The value of these bytes, as `type`; raises `Refused` (`bad_payload`) if they hold something else."""


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
        # JSON has no infinity and no NaN; the encoder would write null for them.
        if b"null" in data and holds_no_number(value):
            raise Refused(
                "bad_payload", f"{reprlib.repr(value)} holds a number that JSON cannot write; send null instead"
            )
        return data

    def decode(self, data: bytes, type: Any = Any) -> Any:
        try:
            return (_decoder(type) if type.__hash__ else _new_decoder(type)).decode(data)
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise Refused("bad_payload", f"{reprlib.repr(data)} is not the expected JSON: {error}") from error


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
            "bad_payload", f"the codec 'raw' gives bytes, not {bounded_repr(type)}; decode the bytes yourself"
        )


@lru_cache(maxsize=1_024)
def _decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return _new_decoder(type)


def _new_decoder(type: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type, dec_hook=from_json_value)


def is_known(kind: object) -> bool:
    """Whether this codec supports a type that JSON does not have."""
    return isinstance(kind, type) and (issubclass(kind, PurePath) or _is_model(kind))


def to_json_value(value: object) -> object:
    """A path or a model as a value that JSON knows; raises TypeError for any other type."""
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(type(value)):
        dumped = value.model_dump(mode="json", by_alias=True)  # type: ignore[attr-defined]  # a model has it
        if holds_no_number(dumped):
            raise ValueError("it holds a number that JSON cannot write")
        return dumped
    raise TypeError(f"Encoding objects of type {type(value).__qualname__} is unsupported; {SENDABLE}")


def from_json_value(kind: type, value: object) -> Any:
    """The value as a path or a model; for any other type the value itself, for the decoder to judge."""
    if not is_known(kind):
        return value
    if issubclass(kind, PurePath):
        if not isinstance(value, str):
            raise ValueError(f"Expected `str`, got `{type(value).__name__}`")  # noqa: TRY004 - the decoder turns it into its own
        return kind(value)
    try:
        # From JSON, not from Python: a strict model takes the text of a datetime there and not here.
        return kind.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]  # a model has it
    except ValueError as error:
        raise ValueError(_sentence(kind, error)) from error


def _is_model(kind: type) -> bool:
    # Never imported here: a program with a model has imported it.
    pydantic = sys.modules.get("pydantic.main")
    model = getattr(pydantic, "BaseModel", None)
    return model is not None and issubclass(kind, model) and hasattr(kind, "model_validate_json")


def _sentence(kind: type, error: ValueError) -> str:
    """The errors of pydantic on one line."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return " ".join(str(error).split())
    found = errors(include_url=False, include_context=False, include_input=False)
    parts = [f"{'.'.join(map(str, each['loc'])) or kind.__name__}: {each['msg']}" for each in found[:ERRORS_SHOWN_MAX]]
    more = f" and {len(found) - ERRORS_SHOWN_MAX} more" if len(found) > ERRORS_SHOWN_MAX else ""
    return f"{kind.__name__}: {cut('; '.join(parts), 200)}{more}"


def holds_no_number(value: object) -> bool:
    """Whether a NaN or an infinity is somewhere in a value: JSON has neither."""
    match value:
        case float():
            return not math.isfinite(value)
        case Mapping():
            return any(map(holds_no_number, value.values()))
        case list() | tuple() | set() | frozenset():
            return any(map(holds_no_number, value))
    return False


JSON = JsonCodec()
RAW = RawCodec()
