"""Derives Spark types for payloads and results from annotations or samples of JSON, and merges them."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, inspect
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.client.codec import JSON
from headrace.model.errors import BadConfig
from headrace.pipeline.sql import quoted

if TYPE_CHECKING:
    from headrace.worker.handlers import Handler

FIELDS_MAX = 200
"""Of a struct. An object with more fields probably has ids as names, and becomes a JSON string."""
DEPTH_MAX = 12
"""Of nested structs, lists and maps; deeper values, such as trees, become JSON strings."""
TEXT = StringType()

_SCALARS: dict[type, DataType] = {
    inspect.BoolType: BooleanType(),
    inspect.IntType: LongType(),
    inspect.FloatType: DoubleType(),
    inspect.DecimalType: DecimalType(38, 18),
    inspect.DateType: DateType(),
    inspect.BytesType: BinaryType(),
    inspect.ByteArrayType: BinaryType(),
    inspect.MemoryViewType: BinaryType(),
    inspect.NoneType: NullType(),
}
_VALUES: dict[type, DataType] = {bool: BooleanType(), int: LongType(), str: TEXT, type(None): NullType()}
_LISTS = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType, inspect.CollectionType)
_OBJECTS = (inspect.StructType, inspect.TypedDictType, inspect.DataclassType)


class PayloadTypes(Struct, frozen=True):
    """The types of a kind's payload and result; a string holds the JSON itself."""

    payload: DataType = TEXT
    result: DataType = TEXT


class TypeChange(Struct, frozen=True):
    """A change of a merge to one field of a type."""

    path: str
    """Such as `lines[].price`; empty for the value as a whole."""
    change: str
    """`added`, `widened` (the new type holds all old values) or `conflict` (now a JSON string)."""
    was: str | None
    type: str


def types_of(handler: "Handler") -> PayloadTypes:
    """The types of the annotations of a job's function; strings if its codec is not JSON."""
    if handler.codec is not JSON:
        return PayloadTypes()
    arguments = handler.arguments
    return PayloadTypes(annotation_type(arguments.payload_type), annotation_type(arguments.result_type))


def annotation_type(annotation: Any) -> DataType:
    """The Spark type of the JSON of an annotation's values; a string for types without an equivalent."""
    try:
        return storable(_of(inspect.type_info(annotation), ()))
    except TypeError:  # an annotation that no decoder knows
        return TEXT


def _of(info: inspect.Type, outer: tuple[type, ...], *, has_base64: bool = True) -> DataType:
    """The type of a node of msgspec's description; `outer` are the enclosing classes."""
    within = partial(_of, outer=outer, has_base64=has_base64)
    match info:
        case inspect.Metadata():
            return within(info.type)
        case inspect.DateTimeType():
            return TimestampNTZType() if info.tz is False else TimestampType()
        case inspect.BytesType() if not has_base64:  # pydantic writes bytes as text
            return TEXT
        case inspect.EnumType():
            return merge_all(_VALUES.get(type(each.value), TEXT) for each in info.cls)
        case inspect.LiteralType():
            return merge_all(_VALUES[type(each)] for each in info.values)
        case inspect.UnionType():
            return merge_all(map(within, info.types))
        case inspect.DictType():
            return MapType(TEXT, within(info.value_type))
        case inspect.TupleType():
            return _of_tuple([within(each) for each in info.item_types])
        case inspect.NamedTupleType():
            return _of_tuple([within(each.type) for each in info.fields])
        case inspect.CustomType(cls=cls) if hasattr(cls, "model_fields"):
            return _of_model(cls, outer)
    if isinstance(info, _LISTS):
        return ArrayType(within(info.item_type))
    if isinstance(info, _OBJECTS):
        return _of_object(info, outer)
    return _SCALARS.get(type(info), TEXT)


def _of_object(info: Any, outer: tuple[type, ...]) -> DataType:
    if info.cls in outer:  # a tree
        return TEXT
    fields = [(each.encode_name, _of(each.type, (*outer, info.cls))) for each in info.fields]
    if getattr(info, "array_like", False):
        return _of_tuple([kind for _, kind in fields])
    if (tag := getattr(info, "tag_field", None)) is not None:
        fields.insert(0, (tag, _VALUES[type(info.tag)]))
    return struct_type(fields)


def _of_model(cls: Any, outer: tuple[type, ...]) -> DataType:
    """The type of a pydantic model, whose fields are written under their aliases."""
    if cls in outer:
        return TEXT
    fields: list[tuple[str, DataType]] = []
    for name, field in cls.model_fields.items():
        try:
            kind = _of(inspect.type_info(field.annotation), (*outer, cls), has_base64=False)
        except TypeError:
            kind = TEXT
        fields.append((field.serialization_alias or field.alias or name, kind))
    fields += [(name, TEXT) for name in cls.model_computed_fields]
    return struct_type(fields)


def _of_tuple(items: list[DataType]) -> DataType:
    """An array if all items have one type, else a string: JSON has no tuples."""
    return ArrayType(items[0]) if items and all(each == items[0] for each in items) else TEXT


def struct_type(fields: Iterable[tuple[str, DataType]]) -> DataType:
    """A struct; a string if Spark cannot store one: no fields, too many, or names that differ in case only."""
    found = dict(fields)
    if not 0 < len(found) <= FIELDS_MAX or len({name.lower() for name in found}) < len(found):
        return TEXT
    return StructType([StructField(name, kind) for name, kind in found.items()])


def storable(found: DataType, depth: int = 0) -> DataType:
    """A type that files can hold: null types, and structs deeper than `DEPTH_MAX`, become strings."""
    match found:
        case NullType():
            return TEXT
        case ArrayType() | MapType() | StructType() if depth == DEPTH_MAX:
            return TEXT
        case ArrayType():
            return ArrayType(storable(found.elementType, depth + 1))
        case MapType():
            return MapType(TEXT, storable(found.valueType, depth + 1))
        case StructType():
            return StructType([StructField(each.name, storable(each.dataType, depth + 1)) for each in found.fields])
    return found


def merge_all(types: Iterable[DataType]) -> DataType:
    """A type for the values of all types."""
    merged: DataType = NullType()
    for each in types:
        merged = merge_types(merged, each)
    return merged


def merge_types(
    old: DataType, new: DataType, path: str = "", on_change: Callable[[TypeChange], None] | None = None
) -> DataType:
    """A type for the values of both: integers widen to decimals, structs and lists merge recursively, and other types
    become JSON strings. `on_change` is called for each field that changes the old type."""
    tell = on_change or (lambda _: None)
    match old, new:
        case _ if old == new or isinstance(new, NullType):
            return old
        case StructType(), StructType():
            return _merge_structs(old, new, path, tell)
        case ArrayType(), ArrayType():
            return ArrayType(merge_types(old.elementType, new.elementType, f"{path}[]", tell))
        case MapType(), MapType():
            return MapType(TEXT, merge_types(old.valueType, new.valueType, f"{path}{{}}", tell))
    merged = _merge_scalars(old, new)
    if merged != old:
        is_conflict = merged == TEXT and not isinstance(old, NullType)
        tell(TypeChange(path, "conflict" if is_conflict else "widened", ddl(old), ddl(merged)))
    return merged


def _merge_structs(old: StructType, new: StructType, path: str, tell: Callable[[TypeChange], None]) -> DataType:
    fields: dict[str, DataType] = {each.name: each.dataType for each in old.fields}
    for each in new.fields:
        place = f"{path}.{each.name}" if path else each.name
        if each.name in fields:
            fields[each.name] = merge_types(fields[each.name], each.dataType, place, tell)
        else:
            fields[each.name] = each.dataType
            tell(TypeChange(place, "added", None, ddl(each.dataType)))
    merged = struct_type(fields.items())
    if merged == TEXT:
        tell(TypeChange(path, "conflict", ddl(old), ddl(merged)))
    return merged


def _merge_scalars(old: DataType, new: DataType) -> DataType:
    if isinstance(old, NullType):
        return new
    numbers = {LongType: 0, DecimalType: 1, DoubleType: 2}
    if type(old) in numbers and type(new) in numbers:
        return max(old, new, key=lambda each: numbers[type(each)])
    return TEXT


def ddl(found: DataType) -> str:
    """The type as SQL writes it, names quoted."""
    match found:
        case StructType():
            fields = ", ".join(f"{quoted(each.name)}: {ddl(each.dataType)}" for each in found.fields)
            return f"STRUCT<{fields}>"
        case ArrayType():
            return f"ARRAY<{ddl(found.elementType)}>"
        case MapType():
            return f"MAP<STRING, {ddl(found.valueType)}>"
        case NullType():
            return "VOID"
    return found.simpleString().upper()


_VARIANT = re.compile(r"\s*(?:(`(?:[^`]|``)*`)|([<>:,])|(\([^)]*\))|([^\s<>:,(`]+))")
_INFERRED: Mapping[str, DataType] = {
    "BOOLEAN": BooleanType(),
    "BIGINT": LongType(),
    "DECIMAL": DoubleType(),
    "DOUBLE": DoubleType(),
    "VOID": NullType(),
}


def variant_type(text: str) -> DataType:
    """The type of a description by `schema_of_variant_agg`; VARIANT becomes a JSON string."""
    tokens = [match[1] or match[2] or match[4] for match in _VARIANT.finditer(text) if not match[3]]
    tokens.reverse()
    found = _parsed(tokens)
    if tokens:
        raise BadConfig(f"Spark describes a payload as {text!r}, which is not a JSON type; leave the kind out")
    return found


def _parsed(tokens: list[str]) -> DataType:
    name = tokens.pop().upper()
    if name == "ARRAY":
        tokens.pop()
        element = _parsed(tokens)
        tokens.pop()
        return ArrayType(element)
    if name == "OBJECT":
        fields: list[tuple[str, DataType]] = []
        while tokens.pop() != ">":  # the opening bracket, then commas
            if tokens[-1] == ">":
                continue
            key = tokens.pop()
            tokens.pop()
            fields.append((key[1:-1].replace("``", "`") if key[0] == "`" else key, _parsed(tokens)))
        return struct_type(fields)
    return _INFERRED.get(name, TEXT)
