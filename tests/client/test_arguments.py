"""Arguments: a call becomes a payload, and the payload becomes the same call."""

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, assert_type

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field

from headrace.client.arguments import Arguments, Style
from headrace.client.codec import JSON, RAW
from headrace.model.errors import BadConfig, Refused


@dataclass
class User:
    id: int
    friends: "list[User]"


def welcome(user_id: int, template: str = "hello", *, at: datetime | None = None) -> str:
    return f"{user_id} {template} {at}"


async def resize(width: int, height: int) -> bytes:
    return bytes(width * height)


def strange(first, /, second=2, *, user: User | None = None, **others: int):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    return first, second, user, others


def failed(id: str, payload: Any, error: dict[str, str], note: str = "") -> None: ...


def whole(user: User) -> None: ...


def blob(data: bytes) -> None: ...


def sent(function: Callable[..., Any], style: Style, *args: Any, **kwargs: Any) -> Any:
    """What the function answers when its arguments have been a payload."""
    arguments = Arguments.of(function, style=style)
    there, named = arguments.decode(arguments.encode(args, kwargs))
    return function(*there, **named)


def test_arguments_arrive_as_they_were_sent() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)

    assert sent(welcome, "named", 1) == welcome(1)
    assert sent(welcome, "named", 1, "bye", at=at) == welcome(1, "bye", at=at)
    assert sent(welcome, "named", user_id=1, at=at) == welcome(1, at=at)


def test_positional_only_and_extra_keyword_arguments_arrive() -> None:
    user = User(1, [User(2, [])])

    assert sent(strange, "named", 1, user=user, more=3) == strange(1, user=user, more=3)
    assert sent(strange, "named", [1, None], "x") == strange([1, None], "x")


def test_a_default_that_is_left_out_is_not_sent() -> None:
    """The default at the time of the run holds."""
    assert Arguments.of(welcome).encode((1,), {}) == b'{"user_id":1}'
    assert Arguments.of(welcome).encode((), {"user_id": 1}) == b'{"user_id":1}'


class Address(msgspec.Struct):
    street: str


def test_a_struct_as_whole_payload_is_one_argument() -> None:
    def move(address: Address) -> None: ...

    arguments = Arguments.of(move, style="whole")

    assert arguments.decode(b'{"street": "Mill Lane"}') == ((), {"address": Address("Mill Lane")})


def test_a_decorated_function_gets_its_arguments_by_name() -> None:
    def plain(a: int, b: int) -> tuple[int, int]:
        return a, b

    @functools.wraps(plain)
    def swapped(**named: int) -> tuple[int, int]:
        return plain(a=named["b"], b=named["a"])

    assert sent(plain, "named", 1, b=2) == (1, 2)
    assert sent(swapped, "named", a=1, b=2) == (2, 1)


def test_a_whole_payload_is_the_one_argument() -> None:
    arguments = Arguments.of(whole, style="whole")

    payload = arguments.encode((User(1, []),), {})

    assert payload == b'{"id":1,"friends":[]}'
    assert arguments.decode(payload) == ((), {"user": User(1, [])})


def test_raw_bytes_are_the_one_argument() -> None:
    arguments = Arguments.of(blob, RAW, "whole")

    assert arguments.decode(arguments.encode((b"\x00\xff",), {})) == ((), {"data": b"\x00\xff"})


def test_a_list_is_the_arguments_in_order() -> None:
    arguments = Arguments.of(failed, style="listed")

    assert arguments.encode(("a", 1), {"error": {}}) == b'["a",1,{}]'
    assert arguments.decode(b'["a",[null],{"class":"X"}]') == (
        (),
        {"id": "a", "payload": [None], "error": {"class": "X"}},
    )
    assert arguments.decode(arguments.encode(("a", 1, {}, "n"), {}))[1]["note"] == "n"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, "missing a required argument: 'user_id'"),
        ((1,), {"tempalte": "x"}, "unexpected keyword argument 'tempalte'"),
        ((1, "x", None, 4), {}, "too many positional arguments"),
        ((1,), {"user_id": 1}, "multiple values for argument 'user_id'"),
        (("one",), {}, r"Expected `int`, got `str` - at `\$\.user_id`"),
        ((), {"user_id": None}, r"Expected `int`, got `null` - at `\$\.user_id`"),
        ((), {"user_id": object()}, "Encoding objects of type object is unsupported"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(
    args: tuple[object, ...], kwargs: dict[str, object], message: str
) -> None:
    with pytest.raises(Refused, match=message) as caught:
        Arguments.of(welcome).encode(args, kwargs)

    assert caught.value.reason == "bad_arguments"
    assert str(caught.value).startswith(
        "wrong arguments for welcome(user_id: int, template: str = 'hello', at: datetime"
    )


@pytest.mark.parametrize(
    "payload", [b"null", b"{}", b'{"user_id":"x"}', b'{"user_id":1,"x":2}', b"[1]", b'{"user_id":1', b"\xff"]
)
def test_a_payload_that_does_not_fit_is_refused(payload: bytes) -> None:
    with pytest.raises(Refused, match="does not fit welcome") as caught:
        Arguments.of(welcome).decode(payload)

    assert caught.value.reason == "bad_payload"


@pytest.mark.parametrize("payload", [b"{}", b'{"first":1,"user":2}', b'{"first":1,"more":"x"}', b"[1]"])
def test_a_payload_that_does_not_fit_a_function_of_any_names_is_refused(payload: bytes) -> None:
    with pytest.raises(Refused, match="does not fit strange"):
        Arguments.of(strange).decode(payload)


@pytest.mark.parametrize("payload", [b"[]", b'["a",1]', b'["a",1,{},"n",5]', b"{}"])
def test_a_list_that_does_not_fit_is_refused(payload: bytes) -> None:
    with pytest.raises(Refused, match="does not fit failed"):
        Arguments.of(failed, style="listed").decode(payload)


def test_functions_with_arguments_that_cannot_be_sent_are_refused() -> None:
    def many(*names: str) -> None: ...
    def two(one: int, other: int) -> None: ...
    def none() -> None: ...
    def by_name(*, id: str) -> None: ...
    def callback(then: Callable[[], None]) -> None: ...
    def deep(then: list[Callable[[], None]]) -> None: ...
    def unknown(user: "Nobody") -> None: ...  # type: ignore[name-defined] # noqa: F821

    wrong: list[tuple[Callable[..., None], Style, str]] = [
        (many, "named", r"takes \*names, whose values have no names"),
        (two, "whole", "must take one argument"),
        (none, "whole", "must take one argument"),
        (by_name, "listed", "takes arguments by name only"),
        (
            callback,
            "named",
            "a type that cannot be sent .*; JSON values, dataclasses, .* pydantic models, .* can be sent",
        ),
        (deep, "named", "a type that cannot be sent"),
        (unknown, "named", "annotations of .* cannot be read"),
    ]
    for function, style, message in wrong:
        with pytest.raises(BadConfig, match=message):
            Arguments.of(function, style=style)
    with pytest.raises(BadConfig, match="raw bytes, which have no names"):
        Arguments.of(blob, RAW)


def test_limits_in_annotations_hold() -> None:
    def order(count: Annotated[int, msgspec.Meta(ge=1)]) -> None: ...

    with pytest.raises(Refused, match=">= 1"):
        Arguments.of(order).encode((0,), {})


def test_a_codec_that_knows_no_types_still_gets_its_values_checked() -> None:
    class Plain:
        """Like a custom codec around another library."""

        name = "plain"

        def encode(self, value: object) -> bytes:
            return JSON.encode(value)

        def decode(self, data: bytes, type: Any = Any) -> Any:  # noqa: ARG002 - it knows no types
            return JSON.decode(data)

    arguments = Arguments.of(welcome, Plain())

    assert arguments.decode(arguments.encode((1,), {})) == ((), {"user_id": 1})
    with pytest.raises(Refused, match="does not fit"):
        arguments.decode(b'{"user_id":"x"}')


def test_the_result_keeps_its_type() -> None:
    """Checked by mypy as well: an async function's result is what it returns, not the coroutine."""
    assert_type(Arguments.of(welcome), Arguments[str])
    assert_type(Arguments.of(resize), Arguments[bytes])

    assert Arguments.of(welcome).result_type is str
    assert Arguments.of(resize).result_type is bytes
    assert Arguments.of(strange).result_type is Any


class Line(BaseModel):
    model_config = ConfigDict(strict=True)

    sku: str = Field(alias="SKU")
    at: datetime


class Order(BaseModel):
    id: int
    lines: list[Line] = []
    path: Path | None = None
    weight: float = 0.0


LINE = Line(SKU="a", at=datetime(2030, 1, 1, tzinfo=UTC))


def ship(
    order: Order,
    label: Path,
    others: dict[str, Order] | None = None,
    *,
    to: Path = Path("out"),
    by: Order | None = None,
) -> Order:
    return order


@pytest.mark.parametrize("style", ["named", "listed"])
def test_models_and_paths_keep_their_type(style: Style) -> None:
    order, others = Order(id=1, lines=[LINE], path=Path("/x")), {"a": Order(id=2)}

    def take(order: Order, label: Path, others: dict[str, Order] | None = None, to: Path = Path("out")) -> Any:
        return order, label, others, to

    assert sent(take, style, order, Path("a/b")) == (order, Path("a/b"), None, Path("out"))
    assert sent(take, style, order, Path("a/b"), others, Path("c")) == (order, Path("a/b"), others, Path("c"))
    assert sent(ship, "named", order, Path("a"), by=order) == order


def test_a_model_may_be_the_whole_payload_and_its_aliases_are_its_names_in_json() -> None:
    def take(line: Line) -> Line:
        return line

    arguments = Arguments.of(take, style="whole")

    payload = arguments.encode((LINE,), {})

    assert payload == b'{"SKU":"a","at":"2030-01-01T00:00:00Z"}'
    assert arguments.decode(payload) == ((), {"line": LINE})
    assert JSON.decode(arguments.encode_result(LINE), arguments.result_type) == LINE


@pytest.mark.parametrize(
    ("order", "label", "message"),
    [
        ({"id": "x"}, Path("a"), "Order: id: Input should be a valid integer"),
        ({"id": 1, "lines": [{}]}, Path("a"), r"lines\.0\.SKU: Field required; lines\.0\.at: Field required"),
        (Order(id=1), 5, r"Expected `str`, got `int` - at `\$\.label`"),
        (Order(id=1, weight=float("nan")), Path("a"), "holds a number that JSON cannot write"),
    ],
)
def test_models_and_paths_that_do_not_fit_are_refused_in_one_sentence(order: Any, label: Any, message: str) -> None:
    with pytest.raises(Refused, match=message) as caught:
        Arguments.of(ship).encode((order, label), {})

    assert "\n" not in str(caught.value)


def test_pydantic_is_not_imported_without_models() -> None:
    program = (
        "import sys; from pathlib import Path; from headrace.client.arguments import Arguments\n"
        "def take(path: Path) -> Path: ...\n"
        "arguments = Arguments.of(take)\n"
        "print(arguments.decode(arguments.encode((Path('a'),), {})), 'pydantic' in sys.modules)"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout == "((PosixPath('a'),), {}) False\n"
