"""Writes and reads values that JSON does not know: paths, and models of pydantic where the program uses it."""

import math
import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import msgspec

from headrace.model.validate import cut

ERRORS_SHOWN_MAX = 3
WORKING = "JSON values, dataclasses, msgspec structs, pydantic models, enums, datetimes, UUIDs and paths can be sent"


def is_known(kind: object) -> bool:
    """Whether values of such a type are written and read here."""
    return isinstance(kind, type) and (issubclass(kind, PurePath) or _is_model(kind))


def to_json_value(value: object) -> object:
    """The value as one that JSON knows; raises TypeError for a type that is not known here."""
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(type(value)):
        dumped = value.model_dump(mode="json", by_alias=True)  # type: ignore[attr-defined]  # a model has it
        if holds_no_number(dumped):
            raise ValueError("it holds a number that JSON cannot write")
        return dumped
    raise TypeError(f"Encoding objects of type {type(value).__qualname__} is unsupported; {WORKING}")


def from_json_value(kind: type, value: object) -> Any:
    """The value as one of the type; what is neither path nor model is handed on as it is, for the decoder to judge."""
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
    # Never imported here: a program that has a model has imported it.
    pydantic = sys.modules.get("pydantic.main")
    model = getattr(pydantic, "BaseModel", None)
    return model is not None and issubclass(kind, model) and hasattr(kind, "model_validate_json")


def _sentence(kind: type, error: ValueError) -> str:
    """What pydantic says on several lines, on one."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return " ".join(str(error).split())
    found = errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, each['loc'])) or kind.__name__}: {each['msg']}" for each in found[:ERRORS_SHOWN_MAX]]
    more = f" and {len(found) - ERRORS_SHOWN_MAX} more" if len(found) > ERRORS_SHOWN_MAX else ""
    return f"{kind.__name__}: {cut('; '.join(told), 200)}{more}"


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
