"""Ids: fresh ones, derived ones, and the fingerprint of the work."""

import os
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Refused
from headrace.model.limits import TIME_MS_MAX
from headrace.model.names import Queue, derived_id, fingerprint, uuid7

instants = st.integers(0, TIME_MS_MAX)
entropies = st.binary(min_size=10, max_size=10)


@given(instants, entropies)
def test_a_fresh_id_is_a_uuid_of_version_7(now_ms: int, entropy: bytes) -> None:
    """Q6, T8: version and variant as RFC 9562 has them, and the instant in the first 48 bits."""
    parsed = uuid.UUID(uuid7(now_ms, entropy))

    assert str(parsed) == uuid7(now_ms, entropy)
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == now_ms


@given(instants, instants, entropies, entropies)
def test_fresh_ids_sort_by_time(first_ms: int, second_ms: int, one: bytes, two: bytes) -> None:
    first, second = uuid7(first_ms, one), uuid7(second_ms, two)

    if first_ms != second_ms:
        assert (first < second) == (first_ms < second_ms)


def test_fresh_ids_of_one_instant_differ() -> None:
    assert len({uuid7(1_700_000_000_000, os.urandom(10)) for _ in range(1_000)}) == 1_000


@given(instants, entropies)
def test_all_entropy_but_the_fixed_bits_is_used(now_ms: int, entropy: bytes) -> None:
    kept = ~((0xF << 76) | (0x3 << 62)) & ((1 << 80) - 1)

    assert uuid.UUID(uuid7(now_ms, entropy)).int & kept == int.from_bytes(entropy, "big") & kept


def test_a_derived_id_is_the_same_in_every_version() -> None:
    """Another value would let a repeated key run its work again: it may never change."""
    assert derived_id(Queue("mail", "acme"), "order:17") == "key-b231d1a85a92aa0485fd15dbd81268ea"


def test_a_derived_id_depends_on_tenant_queue_and_key_and_on_nothing_else() -> None:
    """CB5: another tenant's key is another id."""
    queue = Queue("mail", "acme")

    derived = {
        derived_id(queue, "k"),
        derived_id(Queue("mail", "rival"), "k"),
        derived_id(Queue("post", "acme"), "k"),
        derived_id(queue.fail_queue, "k"),
        derived_id(queue, "K"),
    }

    assert len(derived) == 5
    assert derived_id(Queue("mail", "acme", 7), "k") == derived_id(queue, "k")


def test_the_parts_of_a_derived_id_do_not_run_into_each_other() -> None:
    assert derived_id(Queue("ab", "a"), "c") != derived_id(Queue("a", "a"), "bc")


def test_a_fingerprint_covers_kind_payload_and_explicit_id() -> None:
    same = fingerprint("send", b"1", "a")

    others = {fingerprint("sent", b"1", "a"), fingerprint("send", b"2", "a"), fingerprint("send", b"1", "")}

    assert fingerprint("send", b"1", "a") == same
    assert same not in others
    assert len(others) == 3


@given(st.text("ab", max_size=6), st.integers(0, 6), st.integers(0, 6))
def test_the_parts_of_a_fingerprint_do_not_run_into_each_other(text: str, one: int, two: int) -> None:
    """However a text is cut into kind and payload, another cut is other work."""
    first = fingerprint(text[:one], text[one:].encode(), "")
    second = fingerprint(text[:two], text[two:].encode(), "")

    assert (first == second) == (text[:one] == text[:two])


@pytest.mark.parametrize("key", ["a\udcff", "\ud800" * 257, "\ud800" * 100_000])
def test_a_key_that_cannot_be_encoded_is_refused_before_an_id_is_derived(key: str) -> None:
    with pytest.raises(Refused) as refused:
        derived_id(Queue("mail"), key)

    assert refused.value.reason == "bad_idempotency_key"
    assert len(str(refused.value)) < 400
