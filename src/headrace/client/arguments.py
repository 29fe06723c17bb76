"""Encodes the arguments of a call as the payload of a job, and decodes a payload to call the job's handler."""

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_type_hints, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType

from headrace.client.codec import JSON, RAW, SENDABLE, Codec, from_json_value, is_known
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import RESULT_LOOK_BYTES_MAX
from headrace.model.redact import redact_head
from headrace.model.validate import bounded_repr, cut

R = TypeVar("R")
Style = Literal["named", "whole", "listed"]
Call = tuple[tuple[Any, ...], dict[str, Any]]
"""What `function(*args, **kwargs)` needs."""

_KINDS = inspect.Parameter
_NULL = b"null"
_STRUCT_NAMES = frozenset(dir(Struct))


class Arguments(Generic[R]):
    """Encodes the arguments of a call as a payload, and decodes a payload to arguments.

    Three styles: `named`, the payload is an object of arguments by name; `whole`, the payload is the one argument;
    `listed`, the payload is an array of arguments in order. An argument that a call leaves out is not sent: the
    function's default at the time of the run applies. Sender and worker refuse values that do not fit the annotations.
    """

    def __init__(self, function: Callable[..., Any], codec: Codec, style: Style) -> None:
        self.codec = codec
        self.style = style
        self._name = getattr(function, "__qualname__", repr(function))
        self._signature = inspect.signature(function)
        hints = _hints(function, self._name)
        self.result_type: Any = hints.get("return", Any)
        self._parameters = list(self._signature.parameters.values())
        self._others = next((each for each in self._parameters if each.kind is _KINDS.VAR_KEYWORD), None)
        self._plain = [each for each in self._parameters if each is not self._others]
        self._names = tuple(each.name for each in self._plain)
        self._known = frozenset(self._names)
        self._required = frozenset(each.name for each in self._plain if each.default is _KINDS.empty)
        self._positional_only = tuple(each.name for each in self._plain if each.kind is _KINDS.POSITIONAL_ONLY)
        self._check_shape()
        others_type = Any if self._others is None else hints.get(self._others.name, Any)
        self._others_type = dict[str, others_type]  # type: ignore[valid-type]  # read at run time only
        self._wire: Any = self._wire_type(hints)
        # A worker does this for every job: without a look-up and a call on the way.
        self._read = (
            msgspec.json.Decoder(self._wire, dec_hook=from_json_value).decode
            if codec is JSON and style != "whole"
            else None
        )
        self._is_simple = self._required == self._known and not self._positional_only and self._others is None
        are_free = all(each.kind is _KINDS.POSITIONAL_OR_KEYWORD for each in self._parameters)
        self._is_zipped = style == "named" and are_free
        # A positional call costs half of one by name. A decorator's wrapper may need the names.
        is_itself = inspect.isfunction(function) and not hasattr(function, "__wrapped__")
        self._is_by_place = self._is_simple and is_itself and are_free

    @overload
    @staticmethod
    def of(
        function: Callable[..., Coroutine[Any, Any, R]], codec: Codec = ..., style: Style = ...
    ) -> "Arguments[R]": ...
    @overload
    @staticmethod
    def of(function: Callable[..., R], codec: Codec = ..., style: Style = ...) -> "Arguments[R]": ...
    @staticmethod
    def of(function: Callable[..., Any], codec: Codec = JSON, style: Style = "named") -> "Arguments[Any]":
        """The arguments of a function; raises `BadConfig` for a function whose arguments cannot be sent."""
        return Arguments(function, codec, style)

    def __str__(self) -> str:
        shown = [_shown(each) for each in self._parameters]
        return f"{self._name}({', '.join(shown)})"

    @property
    def payload_type(self) -> Any:
        """The type that a payload is decoded to: a struct of the named arguments, or the one argument."""
        return self._wire

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """The payload of a call with these arguments; raises `Refused` (`bad_arguments`) if they do not fit."""
        if not args and self._required <= kwargs.keys() <= self._known and self.style == "named":
            content: object = kwargs
        elif self._is_zipped and not kwargs and len(self._required) <= len(args) <= len(self._names):
            # Binding costs ten times as much. Parameters without a default come first, so that none of them is missing.
            content = dict(zip(self._names, args, strict=False))
        else:
            content = self._bound(args, kwargs)
        try:
            payload = self.codec.encode(content)
            self._check(payload)  # decoded as in the worker, so that its refusals come here
        except Refused as refused:
            raise self._unfit(str(refused.__cause__ or refused)) from refused
        return payload

    def decode(self, payload: bytes) -> Call:
        """The arguments in a payload, for `function(*args, **kwargs)`; raises `Refused` (`bad_payload`)."""
        if self._is_by_place and self._read is not None:  # nearly all: a worker does this for each job
            try:
                return msgspec.structs.astuple(self._read(payload)), {}
            except (ValueError, RecursionError, msgspec.MsgspecError):
                pass  # the codec below explains the error
        try:
            return self._decoded(payload)
        except Refused as refused:
            found = refused.__cause__ or refused
            raise Refused("bad_payload", f"payload {bounded_repr(payload)} does not fit {self}: {found}") from refused

    @cached_property
    def may_return_none(self) -> bool:
        """Whether the function may return None: its annotation allows it, or it has none."""
        if not self._is_result_checked:
            return True
        try:
            self.codec.decode(_NULL, self.result_type)
        except Refused:
            return False
        return True

    def encode_result(self, result: Any) -> bytes:
        """The result of the function as bytes; raises `Refused` (`bad_result`) if the value is not of the annotated
        type, because no caller could read it, and (`bad_payload`) if the codec cannot write it."""
        data = self.codec.encode(result)
        if self._is_result_checked and type(result) is not self.result_type:
            try:
                self.codec.decode(data, self.result_type)
            except Refused as refused:
                found = refused.__cause__ or refused
                returned = redact_head(
                    data[:RESULT_LOOK_BYTES_MAX].decode("utf-8", "replace"), RESULT_LOOK_BYTES_MAX // 2
                )
                raise Refused(
                    "bad_result",
                    f"{self} returned {cut(returned)} and is annotated with -> {_type_name(self.result_type)}"
                    f" ({found}); return what the annotation says, or correct it",
                ) from refused
        return data

    @cached_property
    def _is_result_checked(self) -> bool:
        if self.result_type in (Any, object) or self.codec is RAW:
            return False
        try:
            _check_wire(self.result_type)
        except TypeError:
            return False  # an annotation that cannot be decoded, such as Iterable[int]
        return True

    def _check(self, payload: bytes) -> None:
        if self._is_simple and self._read is not None:
            try:
                self._read(payload)
            except (ValueError, RecursionError, msgspec.MsgspecError):
                pass  # the codec below explains the error
            else:
                return
        self._decoded(payload)

    def _decoded(self, payload: bytes) -> Call:
        if self._is_simple and self._read is not None:
            try:
                return (), msgspec.structs.asdict(self._read(payload))
            except (ValueError, RecursionError, msgspec.MsgspecError):
                pass  # the codec below explains the error
        if self.style == "whole":
            return self._call({self._names[0]: self.codec.decode(payload, self._wire)})
        if self._others is not None and self.style == "named":
            return self._decoded_with_others(payload)
        wire = self.codec.decode(payload, self._wire)
        if type(wire) is not self._wire:
            wire = _converted(wire, self._wire)
        found = msgspec.structs.asdict(wire)
        if self._is_simple:
            return (), found
        return self._call({name: value for name, value in found.items() if value is not UNSET})

    def _decoded_with_others(self, payload: bytes) -> Call:
        content = self.codec.decode(payload, dict[str, Any])
        wire = _converted({name: value for name, value in content.items() if name in self._known}, self._wire)
        others = {name: value for name, value in content.items() if name not in self._known}
        found = {name: value for name, value in msgspec.structs.asdict(wire).items() if value is not UNSET}
        return self._call(found | _converted(others, self._others_type))

    def _call(self, found: dict[str, Any]) -> Call:
        """Arguments by name as a call; positional-only ones come first, with the defaults of missing ones."""
        args = []
        for name in self._positional_only:
            if name not in found and not any(later in found for later in self._positional_only):
                break
            args.append(found.pop(name) if name in found else self._signature.parameters[name].default)
        return tuple(args), found

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._unfit(str(error)) from None
        content = dict(bound.arguments)
        others = content.pop(self._others.name, {}) if self._others is not None else {}
        if self.style == "named":
            return content | others
        if others:
            raise self._unfit(f"got an unexpected keyword argument {next(iter(others))!r}")
        if self.style == "whole":
            bound.apply_defaults()
            return bound.arguments[self._names[0]]
        count = max((position for position, name in enumerate(self._names, 1) if name in content), default=0)
        return [content.get(each.name, each.default) for each in self._plain[:count]]

    def _unfit(self, found: str) -> Refused:
        return Refused("bad_arguments", f"wrong arguments for {self}: {found}")

    def _check_shape(self) -> None:
        for each in self._parameters:
            if each.kind is _KINDS.VAR_POSITIONAL:
                raise BadConfig(f"{self} takes *{each.name}, whose values have no names; take a list instead")
            if each.name in _STRUCT_NAMES:
                raise BadConfig(
                    f"{self} takes an argument {bounded_repr(each.name)}, which is a reserved name; rename it"
                )
        if self.style == "whole" and (not self._plain or len(self._required) > 1):
            raise BadConfig(f"{self} must take one argument, the payload as a whole")
        if self.style == "listed" and any(
            each.kind is _KINDS.KEYWORD_ONLY and each.name in self._required for each in self._plain
        ):
            raise BadConfig(f"{self} takes arguments by name only, but is called with a list; take them by position")
        if self.codec is RAW and self.style != "whole":
            raise BadConfig(f"{self} gets raw bytes, which have no names; use style 'whole'")

    def _wire_type(self, hints: dict[str, Any]) -> Any:
        types = [(each, hints.get(each.name, Any)) for each in self._plain]
        try:
            if self.style == "whole":
                wire = types[0][1]
            else:
                fields = [
                    (each.name, kind) if each.default is _KINDS.empty else (each.name, Union[kind, UnsetType], UNSET)  # noqa: UP007 - Any has no |
                    for each, kind in types
                    if self.style == "named" or each.kind is not _KINDS.KEYWORD_ONLY
                ]
                wire = msgspec.defstruct(
                    "Arguments",
                    cast("Any", fields),
                    array_like=self.style == "listed",
                    forbid_unknown_fields=True,
                    kw_only=self.style == "named",
                )
            _check_wire(wire)
        except TypeError as error:
            raise BadConfig(f"{self} has an argument of a type that cannot be sent ({error}); {SENDABLE}") from error
        return wire


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    wanted = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(inspect.unwrap(wanted), include_extras=True)
    except (NameError, TypeError) as error:
        raise BadConfig(
            f"the annotations of {name} cannot be read ({error}); import what they name where the function is defined"
        ) from error


def _check_wire(wire: Any) -> None:
    """Raise TypeError for a type that no decoder knows, at any depth; a recursive type is visited once."""
    visited: set[int] = set()
    left: list[Any] = [msgspec.inspect.type_info(wire)]
    while left:
        found = left.pop()
        if isinstance(found, msgspec.inspect.CustomType) and not (found.cls is object or is_known(found.cls)):
            raise TypeError(f"{found.cls.__qualname__} cannot be written as JSON")
        if isinstance(found, (msgspec.inspect.Type, msgspec.inspect.Field)) and id(found) not in visited:
            visited.add(id(found))
            left += [getattr(found, name) for name in found.__struct_fields__]
        elif isinstance(found, tuple):
            left += found


def _converted(value: object, wanted: Any) -> Any:
    try:
        return msgspec.convert(value, wanted, str_keys=True, dec_hook=from_json_value)
    except msgspec.ValidationError as error:
        raise Refused("bad_payload", str(error)) from error


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind).removeprefix("typing.")


def _shown(parameter: inspect.Parameter) -> str:
    """A parameter as in the source; annotations by name, without their module."""
    stars = "**" if parameter.kind is _KINDS.VAR_KEYWORD else "*" if parameter.kind is _KINDS.VAR_POSITIONAL else ""
    kind = parameter.annotation
    annotation = "" if kind is _KINDS.empty else f": {_type_name(kind)}"
    default = "" if parameter.default is _KINDS.empty else f" = {bounded_repr(parameter.default)}"
    return stars + parameter.name + annotation + default
