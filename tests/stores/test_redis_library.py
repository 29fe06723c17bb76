"""The Lua files of the Redis store: their parts in order, and the numbers that they take from the model."""

import re
from importlib.resources import files

import msgspec
import pytest

from headrace.model import limits, rank
from headrace.model.errors import BadConfig
from headrace.model.policy import FAIL_QUEUE_CONFIG, QueueConfig
from headrace.stores.redis.library import order_parts, read_library, read_uses

ROOM = files("headrace.stores.redis") / "lua"
TEXTS = {
    f"{folder.name}/{each.name}": each.read_text("utf-8")
    for folder in (ROOM, ROOM / "parts")
    for each in folder.iterdir()
    if each.is_file()
}


def constant(name: str) -> str:
    """A constant at the head of the library, as it is written there."""
    found = re.search(rf"^local {name} = (.*)$", read_library().source, re.MULTILINE)
    assert found is not None
    return found.group(1)


# Parts.


def test_a_part_comes_behind_the_parts_that_it_uses() -> None:
    texts = {"claim": "-- uses  step, shard", "shard": "-- Shard.", "step": "-- uses  shard", "json": "-- JSON."}

    order = order_parts(texts)

    assert sorted(order) == sorted(texts)
    assert order.index("shard") < order.index("step") < order.index("claim")


def test_uses_may_go_on_in_the_next_line() -> None:
    assert read_uses("-- Why.\n--\n-- uses     shard, step,\n--          claim\n-- keys     none") == [
        "shard",
        "step",
        "claim",
    ]


def test_a_part_that_uses_an_unknown_part_is_refused() -> None:
    with pytest.raises(BadConfig, match=r"parts/claim\.lua uses unknown parts heart; known parts: claim, shard"):
        order_parts({"claim": "-- uses  shard, heart", "shard": ""})


def test_parts_that_use_each_other_are_refused() -> None:
    with pytest.raises(BadConfig, match="use each other"):
        order_parts({"claim": "-- uses  step", "step": "-- uses  claim"})


# Numbers.


def test_functions_have_the_limits_of_the_model() -> None:
    found = {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", constant("LIMITS"))}

    assert found == {name: getattr(limits, name.upper()) for name in found}


def test_functions_know_every_limit_that_they_use_and_no_other() -> None:
    used = {name for text in TEXTS.values() for name in re.findall(r"\bLIMITS\.(\w+)", text)}

    assert used == set(re.findall(r"(\w+) = \d+", constant("LIMITS")))


def test_functions_begin_a_fail_queue_with_the_configuration_of_the_model() -> None:
    assert msgspec.json.decode(constant("FAIL_QUEUE_CONFIG")[1:-1], type=QueueConfig) == FAIL_QUEUE_CONFIG


def test_functions_order_jobs_and_items_as_the_model_does() -> None:
    assert int(constant("TIER")) == 2**limits.NUMBER_BITS
    assert int(constant("PRIORITY_MAX")) == limits.PRIORITY_MAX
    assert rank.SIGNS in constant("RANK")


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_no_lua_file_holds_a_constant_of_the_model(name: str) -> None:
    constants = re.findall(r"^local ([A-Z_]+) = ", read_library().source.partition("-- Prelude")[0], re.MULTILINE)

    assert {"LIMITS", "FAIL_QUEUE_CONFIG", "TIER"} <= set(constants)
    assert [each for each in constants if re.search(rf"^local .*\b{each}\b.* =", TEXTS[name], re.MULTILINE)] == []
