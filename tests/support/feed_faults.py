"""Faults that can be planted in the feeds of the memory store, each under a name that describes it.

The broken code is shared by all stores that keep rows. The conformance suite must notice every one of them: see
tests/conformance/test_planted_faults.py.
"""

from typing import Any

from msgspec.structs import replace

from headrace.model.feed import FIRST, LAST
from headrace.stores.engine import feed_log, items
from headrace.stores.memory import store as memory_store
from headrace.stores.memory.feed_rows import MemoryFeed
from tests.support.faults import fault, swap, wrap

Log = feed_log.FeedLog
_STATUS_OF = feed_log.status_of


def _leave_out(is_left_out: Any) -> None:
    """Note all changes but these."""

    def note(old: Any, log: Any, event: str, *args: Any, **options: Any) -> Any:
        if is_left_out(log, event, options.get("reason")):
            return log.rows.counters.seq
        return old(log, event, *args, **options)

    wrap(Log, "note", note)


# Logging.


@fault("test_sorted_feeds.py::test_an_item_moves_to_either_end_and_next_to_another")
def moves_are_not_logged() -> None:
    _leave_out(lambda _, event, __: event == "moved")


@fault("test_feed_items.py::test_the_oldest_items_beyond_the_bound_are_evicted_and_logged")
def evictions_are_not_logged() -> None:
    _leave_out(lambda _, __, reason: reason is not None)


@fault("test_feeds.py::test_the_log_of_the_directory_has_created_changed_and_deleted_feeds")
def settings_are_not_logged_in_the_directory() -> None:
    _leave_out(lambda log, event, _: log.rows.feed.is_directory and event == "configured")


@fault("test_feed_changes.py::test_a_cursor_returns_the_changes_after_it_repeatedly")
def the_log_of_a_feed_is_not_written_in_the_same_step() -> None:
    # It is written with the next call, as if by somebody who came later.
    late: list[Any] = []

    def append(old: Any, rows: Any, noted: Any) -> None:
        old(rows, [*late, *noted[:-1]])
        late[:] = noted[-1:]

    wrap(MemoryFeed, "append", append)


@fault("test_feed_items.py::test_every_publication_is_logged_with_its_item_and_instance")
def a_change_is_logged_without_its_item() -> None:
    wrap(
        Log,
        "note",
        lambda old, log, event, id="", item=b"", *args, **options: old(log, event, id, b"", *args, **options),
    )


@fault("test_feed_changes.py::test_instants_never_decrease_even_when_the_clock_goes_back")
def the_time_of_a_feed_goes_back() -> None:
    def init(old: Any, log: Any, rows: Any, instance: str, now_ms: int) -> None:
        old(log, rows, instance, now_ms)
        log.at_ms = now_ms

    wrap(Log, "__init__", init)


@fault("test_feed_signals.py::test_a_reader_is_woken_by_a_sweep_that_evicts")
def no_waiter_for_a_feed_is_woken() -> None:
    memory_store.MemoryEngine.notify_changed = lambda self, feed: None  # type: ignore[method-assign]
    # Who waits in vain must not wait for long.
    wrap(memory_store.MemoryEngine, "changed", lambda old, *args: old(*args[:3], min(args[3], 50)))


# Cursors and retention.


@fault("test_feed_changes.py::test_changes_are_kept_by_count")
def a_gap_is_not_noticed() -> None:
    swap(_STATUS_OF, lambda rows, after: "kept" if _STATUS_OF(rows, after) == "gap" else _STATUS_OF(rows, after))


@fault("test_feed_changes.py::test_a_cursor_that_this_log_has_not_reached_is_a_gap")
def the_epoch_of_a_cursor_is_ignored() -> None:
    def status_of(rows: Any, after: Any) -> Any:
        seen = None if rows is None else rows.change(after.seq)
        return _STATUS_OF(rows, after if seen is None else replace(after, epoch=seen.epoch))

    swap(_STATUS_OF, status_of)


@fault("test_feed_changes.py::test_a_cursor_of_a_deleted_feed_is_gone_even_if_the_name_is_used_again")
def a_recreated_feed_is_taken_for_the_old_one() -> None:
    swap(
        _STATUS_OF,
        lambda rows, after: _STATUS_OF(rows, after if rows is None else replace(after, birth=rows.counters.birth)),
    )


@fault("test_feed_changes.py::test_changes_are_kept_by_count")
def a_trim_drops_one_too_many() -> None:
    old = feed_log.trim

    def trim(rows: Any, at_ms: int) -> int:
        was = rows.config
        rows.config = replace(was, changes_keep_max=was.changes_keep_max - 1)
        try:
            return old(rows, at_ms)
        finally:
            rows.config = was

    swap(old, trim)


@fault("test_feed_changes.py::test_changes_are_kept_by_age")
def changes_are_kept_at_their_age() -> None:
    old = feed_log.trim
    swap(old, lambda rows, at_ms: old(rows, at_ms - 1))


@fault("test_feed_changes.py::test_changes_are_kept_by_bytes_of_ids_and_items")
def the_bytes_of_a_log_have_no_bound() -> None:
    old = feed_log.trim

    def trim(rows: Any, at_ms: int) -> int:
        was = rows.config
        rows.config = replace(was, changes_bytes_max=2**60)
        try:
            return old(rows, at_ms)
        finally:
            rows.config = was

    swap(old, trim)


# Items and their order.


@fault("test_feed_items.py::test_a_known_id_at_capacity_evicts_nothing")
def an_edit_evicts() -> None:
    def publish(old: Any, log: Any, publications: Any) -> Any:
        answers = old(log, publications)
        counters, config = log.rows.counters, log.rows.config
        if config.type == "feed" and answers[-1].status == "edited" and counters.items == config.items_max:
            counters.items += 1
            items.evict(log)
            counters.items -= 1
        return answers

    wrap(items, "publish", publish)


@fault("test_feed_items.py::test_items_over_their_age_are_not_shown_whether_they_were_swept_or_not")
def an_item_is_shown_at_its_age() -> None:
    def over(rows: Any, at_ms: int) -> Any:
        return old(rows, at_ms - 1)

    old = items.over_before_ms
    swap(old, over)


@fault("test_feed_items.py::test_a_known_id_is_edited_and_goes_last")
def an_edited_item_keeps_its_position_in_a_feed() -> None:
    def edit(old: Any, log: Any, known: Any, publication: Any) -> None:
        old(log, known, publication)
        edited = log.rows.row(known.id)
        log.rows.drop(edited)
        log.rows.put(replace(edited, rank=known.rank))

    wrap(items, "_edit", edit)


@fault("test_sorted_feeds.py::test_a_move_to_where_the_item_stands_changes_nothing")
def a_move_next_to_itself_loses_the_item() -> None:
    def move(old: Any, log: Any, row: Any, position: Any) -> Any:
        if position.id == row.id:
            log.rows.drop(row)
        return old(log, row, position)

    wrap(items, "_move", move)


@fault("test_sorted_feeds.py::test_next_to_an_unknown_item_nothing_is_published_and_no_number_is_drawn")
def a_refusal_burns_a_number() -> None:
    def publish(old: Any, log: Any, publication: Any) -> Any:
        answer = old(log, publication)
        log.rows.counters.number += publication.id is None and not answer.ok
        return answer

    wrap(items, "_publish", publish)


@fault("test_sorted_feeds.py::test_a_number_used_as_an_id_is_never_drawn_for_another_item")
def a_number_used_as_an_id_is_drawn_again() -> None:
    swap(items._number_of, lambda id: 0)


@fault("test_sorted_feeds.py::test_a_full_sorted_feed_refuses_more_and_takes_it_when_something_leaves")
def a_full_sorted_feed_takes_more() -> None:
    def publish(old: Any, log: Any, publication: Any) -> Any:
        was = log.rows.config
        log.rows.config = replace(was, items_max=was.items_max + 1)
        try:
            return old(log, publication)
        finally:
            log.rows.config = was

    wrap(items, "_publish", publish)


@fault("test_sorted_feeds.py::test_ranks_that_would_grow_long_are_redistributed_in_the_same_order")
def ranks_drawn_anew_disturb_the_order() -> None:
    def rerank(old: Any, rows: Any, *args: Any) -> Any:
        fresh = old(rows, *args)
        one, two = rows.first(2)
        rows.drop(one)
        rows.drop(two)
        rows.put(replace(one, rank=two.rank))
        rows.put(replace(two, rank=one.rank))
        return fresh

    wrap(items, "_rerank", rerank)


@fault("test_item_queues.py::test_items_come_out_in_the_order_in_which_they_were_put")
def an_item_queue_is_last_in_first_out() -> None:
    wrap(
        items,
        "_rank_at",
        lambda old, rows, position: old(rows, FIRST if rows.config.type == "queue" else position),
    )


@fault("test_item_queues.py::test_items_put_first_are_taken_next_the_last_of_them_first")
def what_is_urgent_comes_last() -> None:
    wrap(
        items,
        "_rank_at",
        lambda old, rows, position: old(rows, LAST if rows.config.type == "queue" else position),
    )


@fault("test_item_queues.py::test_items_come_out_in_the_order_in_which_they_were_put")
def an_item_is_handed_out_twice() -> None:
    def take(old: Any, rows: Any, limit: int) -> Any:
        first = rows.first(1)
        taken = old(rows, limit)
        if taken:
            rows.put(first[0])
            rows.counters.items += 1
        return taken

    wrap(items, "take", take)


# Tenants.


@fault("test_feeds.py::test_feeds_of_one_tenant_are_neither_seen_nor_changed_by_another")
def tenants_share_their_feeds() -> None:
    def tx(old: Any, tx: Any, feed: Any, *args: Any) -> Any:
        return old(tx, replace(feed, tenant="one"), *args)

    wrap(memory_store.MemoryTx, "feed", tx)
    wrap(memory_store.MemoryTx, "make_feed", tx)
