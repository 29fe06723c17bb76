"""The client of a Redis server: every caller gets the reply to its own call, or an error that says whether it ran."""

import asyncio
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.errors import BadConfig, OutcomeUnknown, StoreUnavailable
from headrace.stores.redis.client import RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from tests.support.process import free_port
from tests.support.proxy import Proxy, saying
from tests.support.redis_client import COUNT, KEY, SOURCE, Callers, echo, open_client
from tests.support.redis_servers import RedisServer
from tests.support.servers import PASSWORD, USER, redis_server


@pytest.fixture
def server() -> RedisServer:
    """The Redis of this process, emptied of data and functions."""
    server = redis_server()
    server.ask("FLUSHALL")
    server.ask("FUNCTION", "FLUSH")
    return server


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A Redis of the test's own, to be stopped and started."""
    with RedisServer(aof="always") as server:
        yield server.launch()


def counted(server: RedisServer) -> int:
    """How often `count` ran."""
    return int(server.ask("HGET", KEY + "c", "n") or 0)


# Replies.


async def test_a_call_takes_text_bytes_and_numbers_and_answers_bytes(server: RedisServer) -> None:
    async with open_client(server.url) as client:
        answer = await client.call(ServerCall("echo", [KEY], ["ö", b"\0\r\n", 7, 2.5], reads=True))

    assert answer == ["ö".encode(), b"\0\r\n", b"7", b"2.5"]


async def test_answers_come_in_order_and_an_error_stands_in_the_place_of_its_call(server: RedisServer) -> None:
    async with open_client(server.url) as client:
        answers = await client.call_each(
            [echo(1), ServerCall("refuse", [KEY], []), ServerCall("stumble", [KEY], []), echo(2)]
        )
        with pytest.raises(ScriptRefusal):
            await client.call(ServerCall("refuse", [KEY], []))

    assert [answers[0], answers[3]] == [[b"1"], [b"2"]]
    assert isinstance(answers[1], ScriptRefusal)
    assert (answers[1].reason, answers[1].details) == ("wrong_shards", "3")
    assert isinstance(answers[2], OutcomeUnknown), "what a function wrote before it failed stays written"


async def test_no_call_gets_the_reply_of_one_that_was_cancelled(server: RedisServer) -> None:
    rng = random.Random(7)
    answers: dict[int, list[bytes]] = {}

    async def ask(client: RedisClient, number: int) -> None:
        if number % 2:
            answers[number] = await client.call(echo(number, "x" * rng.randrange(20_000)))
        else:
            [first, _] = await client.call_each([echo(number), COUNT])
            answers[number] = first

    async with open_client(f"{server.url}?connections=2") as client:
        cancelled = 0
        for round_ in range(40):
            tasks = [asyncio.create_task(ask(client, round_ * 50 + number)) for number in range(50)]
            for task in rng.sample(tasks, 20):
                for _ in range(rng.randrange(4)):
                    await asyncio.sleep(0)
                cancelled += task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    assert cancelled > 100
    assert len(answers) >= 2_000 - cancelled
    assert [number for number, answer in answers.items() if answer[0] != str(number).encode()] == []


async def test_a_call_that_is_cancelled_before_it_left_is_never_carried_out(server: RedisServer) -> None:
    async with open_client(server.url) as client:
        before = asyncio.create_task(client.call(COUNT))  # with one under way, the next ones of a turn leave together
        task = asyncio.create_task(client.call(COUNT))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(before, task, return_exceptions=True)
        after = await client.call(COUNT)

    assert after == 2


async def test_a_call_after_a_death_that_the_loop_has_not_seen_surely_did_not_run() -> None:
    with RedisServer(aof="always") as server:
        server.launch()
        async with open_client(server.url) as client:
            await client.call(COUNT)
            server.kill()  # without a turn of the loop
            with pytest.raises(StoreUnavailable):
                await client.call(COUNT)
            server.start()
            server.wait_ready()
            after = await client.call(COUNT)

    assert after == 2


async def test_a_client_opens_no_more_connections_than_it_may(server: RedisServer) -> None:
    async with open_client(f"{server.url}?connections=3") as client:
        before = int(server.ask("INFO", "clients")["connected_clients"])
        await asyncio.gather(*[client.call(echo(number)) for number in range(1_000)])
        more = int(server.ask("INFO", "clients")["connected_clients"]) - before

    assert 0 <= more <= 2


# Lost replies and lost servers.


async def test_a_lost_reply_of_a_change_is_an_unknown_outcome_and_is_not_sent_again(server: RedisServer) -> None:
    async with Proxy(server.port) as proxy, open_client(proxy.url) as client:
        proxy.cuts_on_reply = True
        with pytest.raises(OutcomeUnknown) as lost:
            await client.call(COUNT)
        proxy.cuts_on_reply = False
        after = await client.call(COUNT)

    assert after == 2, "carried out once before, and once now"
    assert f"127.0.0.1:{proxy.port}" in str(lost.value)


async def test_a_lost_reply_of_a_read_is_asked_for_again(server: RedisServer) -> None:
    async with Proxy(server.port) as proxy, open_client(proxy.url) as client:
        asking = asyncio.create_task(client.call(echo("a")))
        await asyncio.sleep(0)
        proxy.cut()

        assert await asking == [b"a"]


async def test_a_server_that_does_not_reply_in_time_loses_the_connection_and_not_the_next_call(
    server: RedisServer,
) -> None:
    async with Proxy(server.port) as proxy, open_client(f"{proxy.url}?reply_ms=100&connections=1") as client:
        proxy.loses_replies = True
        answers = await asyncio.gather(client.call(COUNT), client.call(COUNT), return_exceptions=True)
        proxy.loses_replies = False
        after = await asyncio.gather(client.call(echo("a")), client.call(COUNT))

    assert [type(answer) for answer in answers] == [OutcomeUnknown, OutcomeUnknown]
    assert all("100 ms" in str(answer) for answer in answers)
    assert list(after) == [[b"a"], 3]


async def test_answers_that_arrived_before_the_connection_was_lost_are_handed_out(server: RedisServer) -> None:
    async with open_client(server.url) as client:
        me = (await client.topology.masters())[0]
        [own] = await me.send([["CLIENT", "ID"]])
        replies = await me.send([["ECHO", "a"], ["CLIENT", "KILL", "ID", own, "SKIPME", "no"], ["ECHO", "b"]])

    assert [replies[0], type(replies[2]).__name__] == [b"a", "ReplyLost"]


async def test_a_refused_connection_is_unavailable_and_says_where() -> None:
    port = free_port()

    with pytest.raises(StoreUnavailable) as refused:
        async with open_client(f"redis://headrace:s3cret@127.0.0.1:{port}"):
            pytest.fail("no server listens on this port")

    assert f"127.0.0.1:{port}" in str(refused.value)
    assert "s3cret" not in str(refused.value)


async def test_a_server_that_accepts_and_says_nothing_is_unavailable() -> None:
    async with saying(b"") as port:
        with pytest.raises(StoreUnavailable, match="100 ms"):
            async with open_client(f"redis://u:p@127.0.0.1:{port}?connect_ms=100"):
                pytest.fail("it never answered")


async def test_a_server_that_speaks_something_else_is_unavailable() -> None:
    async with saying(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        with pytest.raises(StoreUnavailable, match="not Redis"):
            async with open_client(f"redis://127.0.0.1:{port}"):
                pytest.fail("that was no Redis")


async def test_callers_go_on_by_themselves_when_the_server_comes_back(own_server: RedisServer) -> None:
    async with open_client(own_server.url) as client, Callers(client, 10) as callers:
        await callers.until(lambda tally: tally.answered > 50)
        own_server.kill()
        await callers.until(lambda tally: tally.unavailable > 5)
        before = callers.answered
        await asyncio.get_running_loop().run_in_executor(None, own_server.start)
        await callers.until(lambda tally: tally.answered > before + 50)

    assert callers.answered <= counted(own_server) <= callers.answered + callers.unknown


async def test_a_connection_that_died_while_idle_is_not_used(own_server: RedisServer) -> None:
    async with open_client(own_server.url) as client:
        await client.call(COUNT)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, own_server.stop)
        await loop.run_in_executor(None, own_server.start)

        assert await client.call(COUNT) == 2


async def test_a_closed_client_says_so(server: RedisServer) -> None:
    async with open_client(server.url) as client:
        under_way = asyncio.create_task(client.call(echo("a")))
        await client.close()
        await client.close()

        with pytest.raises(StoreUnavailable, match="closed"):
            await client.call(COUNT)
        with pytest.raises(StoreUnavailable):
            await under_way


# What a server turns away.


async def test_a_full_server_is_unavailable_and_nothing_was_changed(own_server: RedisServer) -> None:
    async with open_client(own_server.url) as client:
        own_server.ask("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(StoreUnavailable, match="OOM"):
            await client.call(COUNT)
        own_server.ask("CONFIG", "SET", "maxmemory", 0)

        assert await client.call(COUNT) == 1


async def test_a_full_server_that_has_the_library_can_be_opened(own_server: RedisServer) -> None:
    async with open_client(own_server.url):
        own_server.ask("CONFIG", "SET", "maxmemory", 1)

    async with open_client(own_server.url) as client:
        assert await client.call(echo("a")) == [b"a"]


async def test_a_user_is_let_in_by_name_and_password_and_refused_without_showing_them(server: RedisServer) -> None:
    async with open_client(server.url_of(USER, PASSWORD)) as client:
        await client.call(echo("a"))

    for url in (server.url_of(USER, "wr0ng"), server.url_of("nob0dy", PASSWORD)):
        with pytest.raises(BadConfig) as refused:
            async with open_client(url):
                pytest.fail("it was let in")
        assert "password" in str(refused.value)
        assert not any(secret in str(refused.value) for secret in ("wr0ng", PASSWORD))


async def test_a_database_is_chosen_by_its_number(server: RedisServer) -> None:
    async with open_client(f"{server.url}/3") as client:
        await client.call(COUNT)

    assert counted(server) == 0


def certificate(folder: Path) -> list[str]:
    """The arguments of a server with a certificate for localhost, which is its own authority."""
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
    subprocess.run([*words, "-keyout", folder / "key.pem", "-out", folder / "ca.pem"], check=True, capture_output=True)
    return ["--tls-cert-file", f"{folder}/ca.pem", "--tls-key-file", f"{folder}/key.pem", "--tls-auth-clients", "no"]


async def test_a_server_with_tls_is_reached_when_its_certificate_is_known(tmp_path: Path) -> None:
    port = free_port()
    with RedisServer(arguments=["--tls-port", str(port), *certificate(tmp_path)]) as server:
        server.launch()
        async with open_client(f"rediss://localhost:{port}?tls_ca={tmp_path}/ca.pem") as client:
            answer = await client.call(echo("a"))
        with pytest.raises(StoreUnavailable, match="certificate"):
            async with open_client(f"rediss://localhost:{port}"):
                pytest.fail("the certificate is unknown")

    assert answer == [b"a"]


# The library.


async def test_a_library_that_is_gone_is_loaded_again_and_the_call_is_carried_out_once(server: RedisServer) -> None:
    async with open_client(server.url) as client:
        server.ask("FUNCTION", "FLUSH")
        answers = await client.call_each([COUNT, echo("a"), COUNT])

    assert answers == [1, [b"a"], 2]


async def test_many_clients_may_load_the_library_at_the_same_time(server: RedisServer) -> None:
    async with open_client(server.url) as first, open_client(server.url) as second:
        for _ in range(20):
            server.ask("FUNCTION", "FLUSH")
            answers = await asyncio.gather(*[client.call(echo("a")) for client in (first, second) for _ in range(5)])
            assert answers == [[b"a"]] * 10


async def test_two_versions_of_the_library_live_side_by_side(server: RedisServer) -> None:
    """Q38: a client runs the functions it was written for, whatever else is loaded."""
    newer = SOURCE.replace("return args end", "return 'newer' end")

    async with open_client(server.url) as client, open_client(server.url, newer) as other:
        answers = await client.call(echo("a")), await other.call(echo("a")), await client.call(echo("b"))

    assert answers == ([b"a"], b"newer", [b"b"])
    assert client.library.name != other.library.name
