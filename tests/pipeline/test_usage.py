"""Promises of the table of usage, on rows written by hand."""

from datetime import date

from pyspark.sql import SparkSession

from headrace.pipeline.tables.usage import usage
from tests.pipeline.test_stats import end, event, frame

DAY_S = 86_400


def test_usage_is_counted_by_tenant_and_day(spark: SparkSession) -> None:
    events = [
        event("enqueued", 0, payload_bytes=100),
        event("updated", 0, payload_bytes=1_000),
        # Two that were enqueued behind the active one are one job when it is freed.
        event("blocked", 0, payload_bytes=30),
        event("blocked", 0, payload_bytes=40),
        event("unblocked", 0, payload_bytes=40),
        event("merged", 0, payload_bytes=40),
        event("claimed", 0, None, fence=1),
        end("retried", 1, 10, 20, payload_bytes=100),
        end("stalled", 1, 10, 20),
        end("released", 1, 10, 20),
        end("done", DAY_S / 2 - 0.001, 5, 7, queue="news"),
        # The next day begins twelve hours after noon.
        end("dead", DAY_S / 2, 1, 2, dead_letter=1),
        event("dead", DAY_S / 2, reason="expired", dead_letter=2),
        event("replayed", DAY_S / 2, dead_letter=1, payload_bytes=100),
        end("cancelled", DAY_S / 2, 1, 2),
        event("cancelled", DAY_S / 2),
        event("cancelled", DAY_S / 2, reason="blocked"),
        event("enqueued", DAY_S / 2, tenant="birch", payload_bytes=2**31 - 1),
        event("enqueued", DAY_S / 2, tenant="birch", payload_bytes=2**31 - 1),
    ]

    rows = usage(frame(spark, events)).orderBy("day", "tenant").collect()

    assert [(row.day, row.tenant, row.events, row.queues) for row in rows] == [
        (date(2023, 11, 15), "acme", 11, 2),
        (date(2023, 11, 16), "acme", 6, 1),
        (date(2023, 11, 16), "birch", 2, 1),
    ]
    jobs = [(row.enqueued, row.replayed, row.done, row.dead, row.cancelled) for row in rows]
    assert jobs == [(2, 0, 1, 0, 0), (0, 1, 0, 2, 2), (2, 0, 0, 0, 0)]
    ended = [(row.deliveries, row.retried, row.stalled, row.run_ms, row.wait_ms) for row in rows]
    assert ended == [(4, 1, 1, 67, 35), (2, 0, 0, 4, 2), (0, 0, 0, 0, 0)]
    assert [row.payload_bytes for row in rows] == [140, 0, 2**32 - 2]
