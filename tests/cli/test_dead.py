"""`headrace dead list` and `dead show`: what died, why, and what it carried."""

import pytest

from headrace.inspect.dead_letters import DeadLetterQuery
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import JobError, Retried
from headrace.model.policy import Policy
from headrace.stores.contract.dead_letters import ALL_DEAD_LETTERS, DeadLetterFilter
from headrace.stores.contract.store import Store
from tests.cli.job_states import BOOM, MAIL, claim_all, finish_all, job, kill_all
from tests.cli.support import Ran, run, with_store

OTHER = Queue("other", shards=4)
LONG = JobError("app.errors.Refused", "x" * 100 + "\nthe rest of it, at postgres://me:hunter2@db/orders")


async def a_few_deaths(store: Store) -> None:
    """Five dead letters in two queues, each with something of its own; one job died twice."""
    await kill_all(store, [job("a", tag="red", payload=b'{"user":42}')])
    await kill_all(store, [job("b", kind="resize")], LONG)
    once = Job(queue=MAIL, id="c", kind="send", policy=Policy(max_attempts=1))
    await finish_all(store, [once], Retried(BOOM))
    await kill_all(store, [job("a", tag="red", payload=b'{"user":43}')])
    await kill_all(store, [job("d", queue=OTHER)])


def test_list_shows_people_what_died_and_of_what(url: str) -> None:
    """T36: `dlq list`."""
    with_store(url, a_few_deaths)

    ran = run("dead", url=url)
    one = run("dead", "list", "--queue", "mail", "--limit", "1", url=url)
    seen = run("dead", "list", "--queue", "other", url=url, terminal=True)

    assert (ran.code, ran.err) == (0, "")
    assert ran.lines[0].split() == [
        *("queue", "key", "id", "kind", "died", "why"),
    ]
    rows = [line.split() for line in ran.lines[2:]]
    assert [(row[0], *row[2:4], *row[7:9]) for row in rows] == [
        ("mail", "a", "send", "failed:", "ValueError:"),
        ("mail", "b", "resize", "failed:", "app.errors.Refused:"),
        ("mail", "c", "send", "attempts:", "ValueError:"),
        ("mail", "a", "send", "failed:", "ValueError:"),
        ("other", "d", "send", "failed:", "ValueError:"),
    ]
    assert [row[1] for row in rows[:4]] == ["0:1", "0:2", "0:3", "0:4"]
    assert rows[1][9] == "x" * 59 + "…"
    assert all(row[6] == "ago" for row in rows)
    assert one.lines[2].split()[:2] == ["0:1", "a"]
    assert one.err.startswith("more follow: --cursor ")
    assert (seen.code, "ValueError" in seen.out) == (0, True)


@pytest.mark.parametrize("width", [40, 100])
def test_a_dead_letter_is_shown_whole_where_the_terminal_is_wide_enough_and_where_no_cut_would_help(
    file_url: str, width: int
) -> None:
    id = "a-long-name-of-a-job-0123456789"
    with_store(file_url, lambda store: kill_all(store, [job(id)]))

    ran = run("dead", "list", url=file_url, terminal=True, width=width)

    assert id in ran.out
    assert "failed:ValueError:" in "".join(ran.out.split())
    assert "…" not in ran.out


def test_list_gives_programs_every_dead_letter_once_page_by_page(url: str) -> None:
    """T34, T36: `dlq list` with a limit and an opaque cursor."""
    with_store(url, a_few_deaths)

    pages = [run("dead", "list", "--limit", "2", "--json", url=url)]
    while (cursor := pages[-1].document["cursor"]) is not None:
        pages.append(run("dead", "list", "--limit", "2", "--cursor", cursor, "--json", url=url))

    rows = [row for page in pages for row in page.document["dead_letters"]]
    assert [(row["queue"], row["id"]) for row in rows] == [
        *(("mail", id) for id in "abca"),
        ("other", "d"),
    ]
    assert [len(page.document["dead_letters"]) for page in pages] == [2, 2, 1]
    assert rows[0]["error"] == {"class": "ValueError", "message": "boom"}
    assert (rows[0]["attempts"], rows[0]["reason"], rows[0]["tag"]) == (1, "failed", "red")
    assert "payload" not in rows[0]
    assert "hunter2" not in pages[0].out


def test_list_filters_exactly(file_url: str) -> None:
    """Each option is the filter of its name; both bounds of the time belong to it."""
    with_store(file_url, a_few_deaths)
    every = run("dead", "list", "--json", url=file_url).document["dead_letters"]
    times = ("--since", every[1]["died_at"], "--until", str(every[1]["died_at_ms"]))

    by_time = run("dead", "list", *times, "--error-class", LONG.cls, "--json", url=file_url)
    by_all = run(
        *("dead", "list", "--id", "a", "--kind", "send", "--tag", "red", "--reason", "failed"),
        *("--error-class", "ValueError", "--since", "1h", "--queue", "mail", "--json"),
        url=file_url,
    )
    old = run("dead", "list", "--until", "1h", url=file_url)

    assert [row["dead_letter"] for row in by_time.document["dead_letters"]] == ["0:2"]
    assert [row["dead_letter"] for row in by_all.document["dead_letters"]] == ["0:1", "0:4"]
    assert old == Ran(0, "no dead letter matches\n", "")


def test_every_filter_that_is_given_reaches_the_store() -> None:
    query = DeadLetterQuery(id="a", kind="k", tag="t", reason="failed", error_class="E", since="2h", until="1h")

    where = query.where(10_000_000)
    bounded = query.where(10_000_000, died_before_ms=5)

    assert where == DeadLetterFilter("a", "k", "t", "failed", "E", 10_000_000 - 7_200_000 - 1, 10_000_000 - 3_600_000)
    assert bounded.died_before_ms == 5
    assert DeadLetterQuery().where(10_000_000) == ALL_DEAD_LETTERS


def test_show_tells_all_of_a_dead_letter_and_the_life_that_led_to_it(url: str) -> None:
    """T33, T36: `inspect` of a job that is dead."""
    with_store(url, a_few_deaths)

    text = run("dead", "show", "b", url=url)
    newest = run("dead", "show", "a", "--json", url=url).document
    first = run("dead", "show", "0:1", "--queue", "mail", "--json", url=url).document
    bare = run("dead", "show", "a", "--no-payload", "--scan-max", "0", url=url)

    assert (text.code, text.err) == (0, "")
    assert text.lines[0] == "dead letter 0:2 of job b on queue mail of tenant default"
    assert "reason      failed" in text.lines
    assert f"error       app.errors.Refused: {'x' * 100}" in text.lines
    assert "            the rest of it, at postgres://…@db/orders" in text.lines
    assert [line.split()[1] for line in text.lines[-3:]] == ["enqueued", "claimed", "dead"]
    assert (newest["dead_letter"], newest["payload"], newest["dead_letters"]) == ("0:4", {"user": 43}, 2)
    assert [event["event"] for event in newest["life"]["events"]] == ["enqueued", "claimed", "dead"] * 2
    assert (first["dead_letter"], first["id"], first["payload"]) == ("0:1", "a", {"user": 42})
    assert bare.lines[-1] == "of this job 2 dead letters; this is the newest"


def test_show_reports_a_missing_dead_letter_and_refuses_several(file_url: str) -> None:
    async def prepare(store: Store) -> None:
        await a_few_deaths(store)
        await kill_all(store, [job("d", queue=Queue("third"))])
        await store.jobs.enqueue([job("alive")])
        await claim_all(store)

    with_store(file_url, prepare)

    alive = run("dead", "show", "alive", url=file_url)
    unknown = run("dead", "show", "0:99", "--queue", "mail", "--json", url=file_url)
    several = run("dead", "show", "d", url=file_url)
    reason = run("dead", "list", "--reason", "boredom", url=file_url)

    assert alive == Ran(
        1, "", "there is no dead letter 'alive' in any queue of tenant 'default'; see headrace dead list\n"
    )
    assert (unknown.code, unknown.document) == (1, {"name": "0:99", "found": False})
    assert several == Ran(
        2, "", "headrace: 'd' names dead letters of the queues other and third; choose one with --queue\n"
    )
    assert reason == Ran(
        2, "", "headrace: 'boredom' is not a reason of death; reasons: attempts, stalls, failed, expired\n"
    )
