"""Promises of machines: a store that is a file is read where it is, and nowhere else."""

import pickle
from pathlib import Path

import pytest

from headrace.model.errors import BadConfig
from headrace.model.event import Span
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.journal.reader import JournalPartition, JournalReader
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import HostPartition
from headrace.pipeline.source.schema import JOURNAL
from headrace.pipeline.source.store_access import check_host, this_host
from tests.pipeline.filled_journals import fill, fill_store
from tests.pipeline.store_scenarios import url_of

MAIL = Queue("mail")
ELSEWHERE = "far-away 3b5f1c1e-0000-4000-8000-000000000000"


def test_a_part_remembers_where_it_was_planned() -> None:
    part = pickle.loads(pickle.dumps(HostPartition("value")))  # noqa: S301  (as Spark does)

    assert (part.value, part.planned_on) == ("value", this_host())


def test_a_task_on_another_machine_refuses_a_file(tmp_path: Path) -> None:
    url = url_of(tmp_path / "headrace.db")
    fill_store(url, fill(MAIL, 1))
    reader, part = JournalReader(SourceOptions(url=url), JOURNAL), JournalPartition((Span(Shard(MAIL), 0, 1),))
    assert sum(batch.num_rows for batch in reader.read(part)) == 1

    part.planned_on = ELSEWHERE
    with pytest.raises(BadConfig) as refused:
        list(reader.read(part))

    assert str(refused.value) == (
        f"the store {tmp_path}/headrace.db is a file on machine far-away, and this task runs on"
        f" {this_host().split()[0]}; use a local master, or a store that is a server (redis://, postgres://)"
    )


@pytest.mark.parametrize("url", ["redis://host/0", "rediss://host/0", "postgres://host/db", "redis+cluster://a,b"])
def test_a_server_is_read_from_every_machine(url: str) -> None:
    check_host(url, ELSEWHERE)
