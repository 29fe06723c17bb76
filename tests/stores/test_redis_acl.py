"""The rights of an application's user: enough for all that the driver does, and nothing more."""

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.errors import BadConfig
from headrace.model.feed import FIRST, FeedCursor, ItemPosition
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.open import open_store
from headrace.stores.redis.durability import CALLED, OPTIONAL, SENT, rules
from tests.support.feed_play import FeedPlay
from tests.support.redis_servers import RedisServer

NOT_COMMANDS = {"BYLEX", "BYSCORE", "COUNT", "LIMIT", "MAXLEN", "MINID", "REV", "WITHSCORES"}
"""Words in capitals in the functions that are options of commands."""


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A Redis with users of several kinds."""
    few = rules().replace("+function|load ", "")
    users = [f"user app on >app {rules()}", f"user few on >few {few}", "user none on >none"]
    with RedisServer(users=users) as server:
        yield server.launch()


def test_the_rules_name_every_command_that_the_functions_call_and_no_other() -> None:
    room = files("headrace.stores.redis") / "lua"
    texts = [
        each.read_text("utf-8") for folder in (room, room / "parts") for each in folder.iterdir() if each.is_file()
    ]

    words = {word for text in texts for word in re.findall(r"'([A-Z]{2,})'", text)} - NOT_COMMANDS

    # The guard of the cluster asks whether a key exists.
    assert sorted(words | {"EXISTS"}) == sorted(each.upper() for each in CALLED)


def test_the_docs_show_these_rules() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/stores.md").read_text("utf-8")

    shown = page.partition("ACL SETUSER headrace on >password\n")[2].partition("```")[0]

    assert shown.split() == rules().split()


def test_every_rule_is_a_command_that_the_server_knows(server: RedisServer) -> None:
    for each in (*SENT, *CALLED, *OPTIONAL):
        server.ask("ACL", "SETUSER", "tried", f"+{each}")


@pytest.mark.parametrize(
    "command",
    ["HGET other field", "KEYS *", "FLUSHALL", "CONFIG GET dir", "FUNCTION FLUSH", "EVAL x 0", "SSUBSCRIBE other"],
)
def test_no_rule_lets_a_user_see_or_change_more_than_its_own_keys(server: RedisServer, command: str) -> None:
    answer = server.ask("ACL", "DRYRUN", "app", *command.split())

    assert b"no permissions" in answer or b"not access" in answer or b"can't" in answer, answer


async def test_the_user_can_do_all_that_the_driver_does(server: RedisServer) -> None:
    mail = Queue("mail", "acme", 2)
    store = await open_store(server.url_of("app", "app"))

    await store.jobs.enqueue([new_job(mail, "send", fresh_id=f"job-{number}") for number in range(4)])
    woken = await store.signals.wait([mail], 1_000)
    claims = await store.jobs.claim(ClaimRequest(queues=[mail], worker="w", nonce="nonce-of-mine", limit=4))
    settled = await store.jobs.settle([claim.settle(Done()) for claim in claims.items])
    health = await store.health()
    await store.close()

    assert woken
    assert [each.status for each in settled] == ["done"] * 4
    assert (health.store, health.profile) == ("redis", "fast")
    assert health.epoch >= 1
    assert abs(health.clock_skew_ms) < 1_000


async def test_the_user_can_do_all_that_the_driver_does_with_feeds(server: RedisServer) -> None:
    board = FeedPlay(await open_store(server.url_of("app", "app")), name="board")
    inbox = FeedPlay(board.store, name="inbox")

    await board.create("sorted", changes_keep_max=10)
    await inbox.create("queue")
    await board.put(*[f"{number}" for number in range(20)], position=FIRST)
    done = [await board.move("3", ItemPosition("before", "5")), await board.edit("4"), *await board.retract("1")]
    woken = await board.store.signals.changed(board.name, FeedCursor("1.1", 1, 1), 1_000)
    await inbox.put("x")
    taken = await inbox.take()
    shown = len(await board.ids()), len((await board.store.items.snapshot(board.name)).rows), await board.item("4")
    await board.configure(changes_keep_max=5)
    swept = await board.sweep()
    for each in (board, inbox):
        await each.delete()
    events = await board.directory.events()
    await board.store.close()

    assert done == ["moved", "edited", "retracted"]
    assert (woken, taken, swept) == (True, ["x"], 0)
    assert shown[:2] == (19, 19)
    assert shown[2] is not None
    assert events == ["created board", "created inbox", "configured board", "deleted board", "deleted inbox"]


@pytest.mark.parametrize("user", ["few", "none"])
async def test_the_error_of_a_user_without_a_right_names_the_missing_rules(server: RedisServer, user: str) -> None:
    server.ask("FUNCTION", "FLUSH")

    with pytest.raises(BadConfig) as refused:
        await open_store(server.url_of(user, user))

    assert "docs/reference/stores.md" in str(refused.value)
