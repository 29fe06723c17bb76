"""The settings in a Redis URL, and the errors for a wrong one."""

import subprocess
import sys

import pytest

from headrace.model.clock import ManualClock
from headrace.model.errors import BadConfig
from headrace.stores.open import open_store
from headrace.stores.redis.url import Address, Credentials
from tests.support.redis_client import options_from


def test_a_plain_url_names_one_server_and_its_database() -> None:
    options = options_from("redis://cache.example:7000/3")

    assert (options.kind, options.addresses, options.db, options.tls) == (
        "single",
        (Address("cache.example", 7000),),
        3,
        False,
    )


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address("localhost", 6379)),
        ("redis://cache", Address("cache", 6379)),
        ("redis://[::1]:7000", Address("::1", 7000)),
        ("redis://[::1]", Address("::1", 6379)),
        ("redis+cluster://cache", Address("cache", 6379)),
        ("redis+sentinel://cache/main", Address("cache", 26379)),
    ],
)
def test_what_a_url_leaves_out_is_the_usual(url: str, address: Address) -> None:
    assert options_from(url).addresses == (address,)


def test_user_and_password_are_decoded_and_never_shown() -> None:
    options = options_from("rediss://us%3Aer:p%40ss%2Fw@cache")

    assert options.credentials == Credentials("us:er", "p@ss/w")
    assert options.tls
    assert "p@ss" not in repr(options)
    assert options_from("redis://:secret@cache").credentials == Credentials("", "secret")


def test_several_servers_are_separated_by_commas() -> None:
    sentinel = options_from("redis+sentinel://u:p@a:1,b:2/main?db=4&sentinel_user=s&sentinel_password=q&tls=yes")
    cluster = options_from("redis+cluster://u:p@a:1,b")

    assert sentinel.addresses == (Address("a", 1), Address("b", 2))
    assert (sentinel.service, sentinel.db, sentinel.tls) == ("main", 4, True)
    assert (sentinel.credentials, sentinel.sentinel_credentials) == (Credentials("u", "p"), Credentials("s", "q"))
    assert (cluster.kind, cluster.addresses) == ("cluster", (Address("a", 1), Address("b", 6379)))


def test_patience_is_an_option() -> None:
    options = options_from("redis://?connect_ms=1&reply_ms=2&wait_ms=3&connections=4&replicas=5")

    assert (options.connect_ms, options.reply_ms, options.wait_ms) == (1, 2, 3)
    assert (options.connections, options.replicas) == (4, 5)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("redis://a,b", "redis+cluster://"),
        ("redis://host:seven", "host:port"),
        ("redis://host:0", "host:port"),
        ("redis://host:99999", "host:port"),
        ("redis://:6379", "host:port"),
        ("redis://host/one", "redis://host:6379/0"),
        ("redis://host/-1", "redis://host:6379/0"),
        ("redis://host/0/1", "redis://host:6379/0"),
        ("redis+cluster://host/1", "no databases"),
        ("redis+sentinel://host", "names the service"),
        ("redis+sentinel://host/a/b", "names the service"),
        ("redis://?profile=reckless", "durable, replicated, fast"),
        ("redis://?profile=", "durable, replicated, fast"),
        ("redis://?decode_responses=1", "known options: profile"),
        ("redis://?sentinel_password=x", "known options: profile"),
        ("redis://?tls=yes", "known options: profile"),
        ("redis+cluster://?tls=maybe", "yes or no"),
        ("redis://?reply_ms=0", "from 1 to"),
        ("redis://?reply_ms=1s", "from 1 to"),
        ("redis://?connections=-1", "from 1 to"),
        ("redis://u:hunter/2@host", "%2F"),
        ("redis://u:hunter?2@host", "%3F"),
        ("redis://u:hunter#2@host", "%23"),
        ("rediss://localhost?tls_ca=/no/such/file&connect_ms=50", "tls_ca"),
    ],
)
async def test_a_wrong_url_is_refused_with_what_to_write_instead(url: str, hint: str) -> None:
    with pytest.raises(BadConfig) as refused:
        await open_store(url)

    assert hint in str(refused.value)
    assert "hunter" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_package_is_named_with_how_to_install_it() -> None:
    program = """
import asyncio, sys
sys.modules["hiredis"] = None
from headrace.stores.open import open_store
asyncio.run(open_store("redis://localhost"))
"""

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "BadConfig: redis:// needs the package hiredis; pip install 'headrace[redis]'" in ended.stderr


async def test_a_clock_of_ones_own_is_refused() -> None:
    with pytest.raises(BadConfig, match="now_ms"):
        await open_store("redis://localhost", clock=ManualClock())
