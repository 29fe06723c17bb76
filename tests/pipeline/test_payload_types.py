"""Promises of typed payloads: what each annotation becomes, how types grow, and that no row is lost to a type."""

import datetime as dt
import enum
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Required, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, NullType

from headrace.client.codec import JSON, RAW
from headrace.model.errors import BadConfig
from headrace.pipeline.payload_types import (
    DEPTH_MAX,
    FIELDS_MAX,
    PayloadTypes,
    TypeChange,
    annotation_type,
    ddl,
    merge_types,
    struct_type,
    types_of,
    variant_type,
)
from headrace.pipeline.sql_views import infer_types, keep_types, read_versions, with_structs
from headrace.pipeline.storage.location import Location
from headrace.worker.handlers import handler_of

Row = dict[str, Any]


class Line(msgspec.Struct, rename="camel", tag_field="type", tag="line"):
    unit_price: Decimal
    count: int | None = None


class Pair(msgspec.Struct, array_like=True):
    name: str
    size: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Place(TypedDict, total=False):
    city: Required[str]
    floor: int


class Point(NamedTuple):
    x: float
    y: float


@dataclass
class Tree:
    name: str
    children: "list[Tree]"


class Model(pydantic.BaseModel):
    total: Decimal = pydantic.Field(alias="Total")
    raw: bytes
    next: "Model | None" = None

    @pydantic.computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def double(self) -> Decimal:
        return self.total * 2


class Odd:
    """A class that JSON does not know."""


CASES: list[tuple[Any, str]] = [
    (bool, "BOOLEAN"),
    (int, "BIGINT"),
    (Annotated[int, msgspec.Meta(ge=0)], "BIGINT"),
    (float, "DOUBLE"),
    (int | float, "DOUBLE"),
    (Decimal, "DECIMAL(38,18)"),
    (str, "STRING"),
    (UUID, "STRING"),
    (Path, "STRING"),
    (dt.datetime, "TIMESTAMP"),
    (Annotated[dt.datetime, msgspec.Meta(tz=False)], "TIMESTAMP_NTZ"),
    (dt.date, "DATE"),
    (dt.time, "STRING"),
    (dt.timedelta, "STRING"),
    (bytes, "BINARY"),
    (Colour, "STRING"),
    (Level, "BIGINT"),
    (Literal["a", "b"], "STRING"),
    (Literal[1, "b"], "STRING"),
    (str | None, "STRING"),
    (int | str, "STRING"),
    (None, "STRING"),
    (Any, "STRING"),
    (Odd, "STRING"),
    (Iterable[int], "STRING"),
    (list[int], "ARRAY<BIGINT>"),
    (set[UUID], "ARRAY<STRING>"),
    (tuple[int, ...], "ARRAY<BIGINT>"),
    (tuple[int, int], "ARRAY<BIGINT>"),
    (tuple[int, str], "STRING"),
    (Point, "ARRAY<DOUBLE>"),
    (Pair, "STRING"),
    (dict[str, list[float]], "MAP<STRING, ARRAY<DOUBLE>>"),
    (dict[int, bool], "MAP<STRING, BOOLEAN>"),
    (Line, "STRUCT<`type`: STRING, `unitPrice`: DECIMAL(38,18), `count`: BIGINT>"),
    (Place, "STRUCT<`city`: STRING, `floor`: BIGINT>"),
    (Line | Place, "STRING"),
    (Tree, "STRUCT<`name`: STRING, `children`: ARRAY<STRING>>"),
    (Model, "STRUCT<`Total`: DECIMAL(38,18), `raw`: STRING, `next`: STRING, `double`: STRING>"),
    (msgspec.defstruct("Empty", []), "STRING"),
    (msgspec.defstruct("Alike", [("a", int), ("A", int)]), "STRING"),
]


@pytest.mark.parametrize(("annotation", "sql"), CASES, ids=[f"{each[0]}" for each in CASES])
def test_an_annotation_becomes_a_type(annotation: Any, sql: str) -> None:
    assert ddl(annotation_type(annotation)) == sql


def test_the_arguments_of_a_function_are_a_struct_and_its_result_has_a_type_of_its_own() -> None:
    def invoice(order: int, *, lines: list[Line], note: str | None = None) -> Decimal:
        return Decimal(order + len(lines) + len(note or ""))

    def whole(place: Place) -> None: ...

    named = types_of(handler_of("invoice", invoice))
    one = types_of(handler_of("whole", whole, style="whole"))
    raw = types_of(handler_of("raw", whole, style="whole", codec=RAW))

    assert ddl(named.payload) == (
        "STRUCT<`order`: BIGINT,"
        " `lines`: ARRAY<STRUCT<`type`: STRING, `unitPrice`: DECIMAL(38,18), `count`: BIGINT>>, `note`: STRING>"
    )
    assert ddl(named.result) == "DECIMAL(38,18)"
    assert (ddl(one.payload), ddl(one.result)) == ("STRUCT<`city`: STRING, `floor`: BIGINT>", "STRING")
    assert (ddl(raw.payload), ddl(raw.result)) == ("STRING", "STRING")


def test_a_merge_widens_numbers_adds_fields_and_makes_a_string_of_what_is_of_two_types() -> None:
    old = variant_type("OBJECT<n: BIGINT, lines: ARRAY<OBJECT<p: BIGINT, q: STRING>>, flag: BOOLEAN, none: VOID>")
    new = variant_type("OBJECT<n: DECIMAL(3,1), lines: ARRAY<OBJECT<p: BIGINT, r: VOID>>, flag: STRING, none: BIGINT>")
    changes: list[TypeChange] = []

    merged = merge_types(old, new, on_change=changes.append)

    assert ddl(merged) == (
        "STRUCT<`n`: DOUBLE, `lines`: ARRAY<STRUCT<`p`: BIGINT, `q`: STRING, `r`: VOID>>, `flag`: STRING,"
        " `none`: BIGINT>"
    )
    assert changes == [
        TypeChange("n", "widened", "BIGINT", "DOUBLE"),
        TypeChange("lines[].r", "added", None, "VOID"),
        TypeChange("flag", "conflict", "BOOLEAN", "STRING"),
        TypeChange("none", "widened", "VOID", "BIGINT"),
    ]
    again: list[TypeChange] = []
    assert (merge_types(merged, old, on_change=again.append), again) == (merged, [])


def test_an_object_with_more_fields_than_a_type_may_have_or_too_deep_is_a_string() -> None:
    wide = struct_type((f"f{n}", LongType()) for n in range(FIELDS_MAX + 1))
    deep: Any = int
    for _ in range(DEPTH_MAX + 1):
        deep = list[deep]

    assert ddl(wide) == "STRING"
    assert ddl(annotation_type(deep)) == "ARRAY<" * DEPTH_MAX + "STRING" + ">" * DEPTH_MAX


@pytest.mark.parametrize("text", ["OBJECT<a: BIGINT> left", "BIGINT>"])
def test_a_description_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(BadConfig, match="which is not a JSON type"):
        variant_type(text)


def rows(spark: SparkSession, types: PayloadTypes, *texts: str | None) -> list[Row]:
    frame = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "n int, payload string")
    return [row.asDict(recursive=True) for row in with_structs(frame, types).orderBy("n").collect()]


def test_what_the_codec_writes_is_read_as_the_values_that_were_sent(spark: SparkSession) -> None:
    at = dt.datetime(2030, 5, 1, 12, 30, 15, 250_000, dt.UTC)

    class Everything(msgspec.Struct):
        at: dt.datetime
        local: Annotated[dt.datetime, msgspec.Meta(tz=False)]
        day: dt.date
        price: Decimal
        key: UUID
        colour: Colour
        raw: bytes
        by_name: dict[str, list[int]]
        line: Line
        anything: Any
        missing: int | None = None

    sent = Everything(
        at, at.replace(tzinfo=None), at.date(), Decimal("12.50"), UUID(int=7), Colour.RED, b"\x00\xff", {"a b": [1, 2]},
        Line(Decimal("0.1"), 3), {"x": [1, None]},
    )  # fmt: skip
    text = JSON.encode(sent).decode()

    [row] = rows(spark, PayloadTypes(annotation_type(Everything)), text)

    found = row["payload"]
    assert (row["payload_json"], row["fits"]) == (text, True)
    assert found.pop("at").astimezone(dt.UTC) == at
    assert found == {
        "local": sent.local,
        "day": sent.day,
        "price": sent.price,
        "key": str(sent.key),
        "colour": "red",
        "raw": bytearray(b"\x00\xff"),
        "by_name": {"a b": [1, 2]},
        "line": {"type": "line", "unitPrice": Decimal("0.1"), "count": 3},
        "anything": '{"x":[1,null]}',
        "missing": None,
    }


def test_a_value_that_does_not_fit_is_null_in_its_place_and_its_row_stays_with_its_text(spark: SparkSession) -> None:
    types = PayloadTypes(variant_type("OBJECT<a: BIGINT, b: ARRAY<BIGINT>>"))

    found = rows(
        spark, types, '{"a":"one","b":[2]}', '{"a":1,"new":{"x":1}}', "no JSON", "[1]", None, f'{{"a":{2**70}}}'
    )

    assert [(row["payload"], row["fits"]) for row in found] == [
        ({"a": None, "b": [2]}, False),
        ({"a": 1, "b": None}, True),
        (None, False),
        (None, False),
        (None, True),
        ({"a": None, "b": None}, False),
    ]
    assert [row["payload_json"] for row in found][:3] == ['{"a":"one","b":[2]}', '{"a":1,"new":{"x":1}}', "no JSON"]


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, "7", 7),
        (list[str], '["a"]', ["a"]),
        (Decimal, '"1.5"', Decimal("1.5")),
        (str, '"a"', '"a"'),
        (int, "null", None),
    ],
)
def test_a_payload_or_result_may_be_any_value_and_not_only_an_object(
    spark: SparkSession, annotation: Any, text: str, value: Any
) -> None:
    [row] = rows(spark, PayloadTypes(annotation_type(annotation)), text)

    assert (row["payload"], row["fits"]) == (value, True)


def test_types_are_inferred_by_kind_from_the_latest_payloads_and_results(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [
            ("mail", 1, '{"old":1}', None),
            ("mail", 2, '{"to":"a","n":1}', "1"),
            ("mail", 3, '{"to":"b","n":1.5}', None),
            ("mail", 4, "no JSON", '"x"'),
            ("ping", 1, None, None),
            ("pong", 1, '{"a b":{"c":null},"d":[1,"x"]}', None),
            (None, 1, "1", None),
        ],
        "kind string, enqueued_at int, payload string, result string",
    )

    found = infer_types(frame, samples=3)

    assert {kind: (ddl(types.payload), ddl(types.result)) for kind, types in found.items()} == {
        "mail": ("STRUCT<`n`: DOUBLE, `to`: STRING>", "STRING"),
        "pong": ("STRUCT<`a b`: STRUCT<`c`: VOID>, `d`: ARRAY<STRING>>", "VOID"),
    }


def test_types_are_kept_with_their_changes_and_only_grow(home: Location) -> None:
    def keep(payload: str, at_ms: int) -> str:
        kept = keep_types(home, {"mail": PayloadTypes(variant_type(payload), NullType())}, at_ms)
        assert ddl(kept["mail"].result) == "STRING"
        return ddl(kept["mail"].payload)

    types = [
        keep("OBJECT<n: BIGINT, gone: BOOLEAN>", 1_000),
        keep("OBJECT<n: BIGINT, gone: BOOLEAN>", 2_000),
        keep("OBJECT<n: DOUBLE, new: VOID>", 3_000),
        keep("OBJECT<n: STRING>", 4_000),
        keep("OBJECT<n: BIGINT>", 5_000),
    ]

    assert types == [
        "STRUCT<`n`: BIGINT, `gone`: BOOLEAN>",
        "STRUCT<`n`: BIGINT, `gone`: BOOLEAN>",
        "STRUCT<`n`: DOUBLE, `gone`: BOOLEAN, `new`: STRING>",
        "STRUCT<`n`: STRING, `gone`: BOOLEAN, `new`: STRING>",
        "STRUCT<`n`: STRING, `gone`: BOOLEAN, `new`: STRING>",
    ]
    assert [(each.version, each.noted_at[:19], each.changes) for each in read_versions(home)] == [
        (1, "1970-01-01T00:00:01", ()),
        (
            2,
            "1970-01-01T00:00:03",
            (TypeChange("n", "widened", "BIGINT", "DOUBLE"), TypeChange("new", "added", None, "VOID")),
        ),
        (3, "1970-01-01T00:00:04", (TypeChange("n", "conflict", "DOUBLE", "STRING"),)),
    ]
