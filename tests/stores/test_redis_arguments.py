"""Redis functions read only the arguments that they are sent."""

from urllib.parse import urlsplit

from headrace.model.policy import Policy
from headrace.stores.open import open_store
from headrace.stores.redis.store import RedisStore
from headrace.stores.redis.url import options_of
from tests.conformance.test_leftovers import drain, live, sweep
from tests.support.play import Play
from tests.support.server_cleanup import flush
from tests.support.servers import PASSWORD, USER, redis_server

STRICT = """
local function strict(run)
  return function(keys, args)
    return run(keys, setmetatable(args, {
      __index = function(_, at) error('argument ' .. tostring(at) .. ' was not sent') end,
    }))
  end
end
"""


def strict(source: str) -> str:
    """The functions, changed to fail on a missing argument."""
    assert source.count("callback = guarded(run)") > 20
    return STRICT + source.replace("callback = guarded(run)", "callback = strict(guarded(run))")


async def test_no_function_reads_an_argument_that_it_was_not_sent() -> None:
    """QB14: a life of everything."""
    flush([redis_server()])
    store = await RedisStore.open(options_of(urlsplit(redis_server().url_of(USER, PASSWORD)), {}), edit=strict)
    play = Play(store, 3)

    await play.extend((await play.start("extended")).lease)
    await live(play)
    await play.snapshot()
    await play.dead_letters()
    await drain(play)
    await store.queues.purge(play.queue, now_ms=play.now_ms)
    await sweep(play)

    assert (await play.counts()).waiting == 0
    await store.close()


async def test_a_flag_that_is_off_is_off_in_the_function_too() -> None:
    """QB13: a flag travels as what it means, never as a text that is true whatever it says."""
    flush([redis_server()])
    store = await open_store(redis_server().url_of(USER, PASSWORD))
    play = Play(store)
    await play.enqueue("a", payload=b"1", policy=Policy(priority=1))

    await play.enqueue("a", payload=b"2", policy=Policy(priority=2), update_payload=False, update_policy=False)

    record = await play.record("a")
    assert (record.payload, record.policy.priority) == (b"1", 1)
    await store.close()


def unseeing(source: str) -> str:
    """The functions, changed to fail when they check whether a second payload is a text."""
    head = "function json.is_utf8(text)\n"
    assert source.count(head) == 1
    return source.replace(head, head + "  if find(text, 'second', 1, true) then error('looked') end\n")


async def test_a_caller_that_knows_that_payloads_are_wanted_looks_into_them_itself() -> None:
    """In Lua the check takes a hundred times as long, and blocks all other clients meanwhile."""
    flush([redis_server()])
    store = await RedisStore.open(options_of(urlsplit(redis_server().url_of(USER, PASSWORD)), {}), edit=unseeing)
    play = Play(store)
    await play.configure(journal_payloads=True)
    await play.enqueue("a", payload=b'"first"')

    await play.enqueue_all(play.job("b", payload=b'"second"'), play.job("a", payload='"second, größer"'.encode()))
    await play.enqueue("c", payload=b'"second"', idempotency_key="k")

    assert [event.line.payload for event in await play.events()][2:] == ['"second"', '"second, größer"', '"second"']
    await store.close()
