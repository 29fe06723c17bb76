"""Codecs: values to bytes and back."""

import pickle
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.codec import JSON, RAW
from headrace.model.errors import Refused

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)
)


@dataclass
class Point:
    x: int
    y: int = 0


@settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine generates slowly
@given(json_values)
def test_any_json_value_comes_back_unchanged(value: object) -> None:
    """Q6: data is any JSON value and reaches the handler as it was, types included."""
    again = JSON.decode(JSON.encode(value))

    assert again == value
    assert repr(again) == repr(value)  # 1 and 1.0 are equal and not the same


def test_a_value_is_read_as_the_requested_type() -> None:
    assert JSON.decode(JSON.encode(Point(1, 2)), Point) == Point(1, 2)
    assert JSON.decode(b"[1,2]", tuple[int, int]) == (1, 2)


@pytest.mark.parametrize("value", [object(), float("nan"), {"a": [1, {"b": float("inf")}]}, "\ud800"])
def test_a_value_that_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(Refused, match="JSON") as caught:
        JSON.encode(value)

    assert caught.value.reason == "bad_payload"


def test_a_value_that_is_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(Refused, match="JSON"):
        JSON.encode(deep)
    with pytest.raises(Refused, match="JSON"):
        JSON.decode(b"[" * 100_000 + b"]" * 100_000)


@pytest.mark.parametrize("data", [b"", b"{", b'{"x":"one"}', b'{"y":1}', b"\xff", b"1 2"])
def test_bytes_of_another_type_are_refused(data: bytes) -> None:
    with pytest.raises(Refused, match="is not the expected JSON: ") as caught:
        JSON.decode(data, Point)

    assert caught.value.reason == "bad_payload"


def test_raw_is_bytes_in_and_bytes_out_and_nothing_else() -> None:
    assert RAW.decode(RAW.encode(b"\x00\xff")) == b"\x00\xff"
    with pytest.raises(Refused, match="takes bytes; found str 'text'"):
        RAW.encode("text")
    with pytest.raises(Refused, match="gives bytes"):
        RAW.decode(b"1", int)


def test_a_codec_is_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps((JSON, RAW))) == (JSON, RAW)  # noqa: S301 - our own bytes
