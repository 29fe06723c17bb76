"""Names: what a tenant and a queue may be called, and which shard an id belongs to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Refused
from headrace.model.names import Queue, Shard

ids = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=40)


@pytest.mark.parametrize("tenant", ["default", "a", "acme-2", "a" * 63, "x-", "a--b"])
def test_a_tenant_is_a_small_name(tenant: str) -> None:
    """C2: a dead letter, then small letters, digits and dashes, 63 at most."""
    assert Queue("mail", tenant).tenant == tenant


@pytest.mark.parametrize(
    "tenant", ["", "A", "1a", "-a", "a_b", "a.b", "a b", "a" * 64, "é", "a\n", "a/b", "a:b", "{a}", None, 5]
)
def test_a_tenant_of_another_form_is_refused_with_the_form(tenant: str) -> None:
    """C2, T9: the refusal names the value and what to do."""
    with pytest.raises(Refused) as refused:
        Queue("mail", tenant)

    assert refused.value.reason == "bad_tenant"
    assert str(refused.value).startswith("tenant ")
    assert str(refused.value).endswith(
        "is not a name; start with a small letter, go on with small letters, digits and '-' (63 at most)"
    )


def test_the_tenant_is_default_unless_it_is_set() -> None:
    assert Queue("mail").tenant == "default"


@pytest.mark.parametrize("name", ["mail", "M", "0", "a.b-c_d", "a" * 120, "mail.fails", "fail", "a.fail.b", "Mail"])
def test_a_queue_name_is_letters_digits_dots_dashes_and_underscores(name: str) -> None:
    assert Queue(name).full_name == name


@pytest.mark.parametrize(
    "name", ["", ".a", "-a", "_a", "mail box", "a" * 121, "a/b", "a:b", "{a}", "a#b", "é", "a\n", "a\0", None, 5]
)
def test_a_queue_name_of_another_form_is_refused_with_the_form(name: str) -> None:
    """T13, T9: the refusal names the value and what to do."""
    with pytest.raises(Refused) as refused:
        Queue(name)

    assert refused.value.reason == "bad_queue"
    assert "is not a name; start with a letter or digit, go on with letters, digits, '.', '-' and '_'" in str(
        refused.value
    )


def test_a_long_name_is_cut_in_the_message() -> None:
    with pytest.raises(Refused) as refused:
        Queue("x y" * 500)

    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name", ["mail.fail", "a.fail.fail", "0.fail"])
def test_a_name_that_ends_in_fail_is_kept_for_fail_queues(name: str) -> None:
    with pytest.raises(Refused, match=r"ends in '\.fail', which is reserved for fail queues; choose another name"):
        Queue(name)


@pytest.mark.parametrize("shards", [0, -1, 257, 1.0, True, "3"])
def test_a_number_of_shards_is_from_1_to_256(shards: int) -> None:
    with pytest.raises(Refused, match=r"^shards must be "):
        Queue("mail", "acme", shards)


def test_a_fail_queue_has_the_tenant_and_the_shards_of_its_queue_and_none_of_its_own() -> None:
    fail_queue = Queue("mail", "acme", 3).fail_queue

    assert (fail_queue.full_name, fail_queue.tenant, fail_queue.shards) == ("mail.fail", "acme", 3)
    with pytest.raises(Refused, match=r"'mail\.fail' is a fail queue and has no fail queue of its own"):
        _ = fail_queue.fail_queue


@pytest.mark.parametrize("queue", [Queue("mail", "acme", 3), Queue("mail", "acme", 3).fail_queue, Queue("fail")])
def test_a_stored_name_is_read_back_as_the_same_queue(queue: Queue) -> None:
    assert Queue.parse(queue.full_name, queue.tenant, queue.shards) == queue


@given(ids, st.integers(1, 256))
def test_an_id_belongs_to_one_shard_for_ever(id: str, shards: int) -> None:
    queue = Queue("mail", "acme", shards)

    index = queue.index_of(id)

    assert 0 <= index < shards
    assert queue.shard_of(id) == Shard(queue, index)
    assert Queue("mail", "acme", shards).index_of(id) == index
    assert Queue("mail", "acme", 1).index_of(id) == 0


@pytest.mark.parametrize(("id", "index"), [("a", 0), ("job-00000", 0), ("é", 2), ("😀", 1), ("a#1", 2), ("key-0", 0)])
def test_the_shard_of_an_id_is_the_same_in_every_version(id: str, index: int) -> None:
    """A release that hashed differently would lose every job: these values may never change."""
    assert Queue("mail", "acme", 3).index_of(id) == index


@given(ids, st.integers(1, 10**18), st.integers(2, 256))
def test_a_job_of_the_fail_queue_is_in_the_shard_of_the_job_that_died(id: str, dead_letter: int, shards: int) -> None:
    """Routed by the part before the last '#', so that dying is one step."""
    queue = Queue("mail", "acme", shards)

    assert queue.fail_queue.index_of(f"{id}#{dead_letter}") == queue.index_of(id)


def test_ids_spread_over_the_shards() -> None:
    queue = Queue("mail", "acme", 8)

    counts = [0] * 8
    for number in range(8_000):
        counts[queue.index_of(f"job-{number}")] += 1

    assert min(counts) > 800
    assert max(counts) < 1_200


@pytest.mark.parametrize("index", [-1, 3, 1.0, True])
def test_a_shard_that_the_queue_does_not_have_is_refused(index: int) -> None:
    with pytest.raises(Refused, match=r"^shard must be "):
        Shard(Queue("mail", "acme", 3), index)


def test_a_shard_is_shown_as_tenant_queue_and_index() -> None:
    assert str(Shard(Queue("mail", "acme", 3).fail_queue, 2)) == "acme/mail.fail/2"
    assert [shard.index for shard in Queue("mail", "acme", 3).all_shards()] == [0, 1, 2]
