"""The contract's own shape: small protocols that say what they promise."""

import inspect

import pytest

from headrace.stores.contract.dead_letters import DeadLetters
from headrace.stores.contract.feeds import FeedStore, Items
from headrace.stores.contract.integrity import Integrity
from headrace.stores.contract.jobs import Jobs
from headrace.stores.contract.journal import Journal
from headrace.stores.contract.queues import Queues
from headrace.stores.contract.reads import Reads
from headrace.stores.contract.signals import Signals
from headrace.stores.contract.store import Store

PROTOCOLS = (DeadLetters, FeedStore, Items, Jobs, Journal, Queues, Reads, Signals, Store, Integrity)


def methods(protocol: type) -> dict[str, object]:
    """What a protocol asks a driver for."""
    return {name: value for name, value in vars(protocol).items() if not name.startswith("_")}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_protocol_has_at_most_ten_methods_and_each_says_what_it_promises(protocol: type) -> None:
    members = methods(protocol)

    parts = [name for name, value in members.items() if isinstance(value, property)]  # each a protocol itself
    assert len(members) - len(parts) <= 10
    assert [name for name, method in members.items() if not inspect.getdoc(method)] == []


@pytest.mark.parametrize("protocol", [DeadLetters, FeedStore, Items, Jobs, Journal, Queues, Reads, Integrity])
def test_every_call_that_depends_on_the_time_can_be_given_it(protocol: type) -> None:
    timeless = {"names", "tenants", "delete", "configuration", "read", "bounds", "forget", "consumers"}
    timeless |= {"describe", "changes", "all_bounds", "reached"}

    without = {
        name
        for name, method in methods(protocol).items()
        if callable(method) and "now_ms" not in inspect.signature(method).parameters
    }

    assert without <= timeless
