"""`headrace enqueue`: sends a job as the app says, or as typed, and many of them from a file."""

import io
import json
import re
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace import App
from headrace.cli.enqueue import line_sender
from headrace.cli.jsonl import LineReport, send
from headrace.cli.main import main
from headrace.cli.send import JobFactory
from headrace.client.client import Client
from headrace.model.claim import ClaimRequest
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.job import State
from headrace.model.limits import LINES_CHECKED_MAX
from headrace.model.names import Queue
from headrace.model.results import Found
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.testing.faults import FaultyStore
from tests.cli.background import until
from tests.cli.support import Ran, run, start, with_store
from tests.support.process import wait_until
from tests.support.redis_servers import RedisServer

APP = """
from headrace import App

app = App()


@app.job(queue="mail", max_attempts=7, timeout="30s")
async def welcome(user_id: int, name: str = "") -> str:
    return f"welcome {name or user_id}"


@app.job(style="listed")
async def add(a: int, b: int) -> int:
    return a + b
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with an app, and a table that names it and another queue."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "pyproject.toml").write_text('[tool.headrace]\napp = "app:app"\nqueue = "elsewhere"\n')
    return folder


Here = Callable[..., Ran]


@pytest.fixture
def here(project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Here:
    """Enqueues in this process, for the many cases of one promise: `main` is what the program calls."""
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project)
    monkeypatch.delitem(sys.modules, "app", raising=False)
    monkeypatch.delenv("HEADRACE_URL", raising=False)

    def enqueue(*words: str) -> Ran:
        code = main(["enqueue", *words])
        return Ran(code, *capsys.readouterr())

    return enqueue


def found(url: str, queue: str | Queue, id: str) -> Found:
    """All that the store knows of a job."""
    target = queue if isinstance(queue, Queue) else Queue(queue)
    [job] = with_store(url, lambda store: store.reads.find(target, [id]))
    assert job is not None
    return job


def payload(job: Found) -> Any:
    assert job.record is not None
    return json.loads(job.record.payload)


def count(url: str, queue: str = "default") -> int:
    return with_store(url, lambda store: store.queues.counts(Queue(queue))).waiting


def test_a_job_goes_to_the_queue_of_its_function_and_a_person_reads_where(url: str, project: Path) -> None:
    """C38: as `task create`; what the app says beats the project's table."""
    ran = run("enqueue", "welcome", "user_id=42", "name=7", "--id", "u-42", url=url, cwd=project)

    assert (ran.code, ran.lines) == (0, ["job u-42 was created on queue 'mail'"])
    assert ran.err == ("no worker has polled queue 'mail' within the last minute; start one with: headrace worker\n")
    job = found(url, "mail", "u-42")
    assert job.record is not None
    assert payload(job) == {"user_id": 42, "name": "7"}
    assert (job.record.policy.max_attempts, job.record.policy.timeout_ms) == (7, 30_000)


def test_every_option_reaches_the_job_and_a_program_gets_them_as_json(url: str) -> None:
    """T36: `enqueue --type --payload-json --run-at --timeout --max-attempts --idempotency-key`, without an app."""
    options = (
        "--queue q --tenant acme --shards 2 --run-at 2030-01-01T00:00:00Z --priority 7 --timeout 90 --max-attempts 4"
        " --max-stalls 2 --backoff 2s --backoff-max 1m --result-ttl 1d --expires-at 1900000000000 --tag t"
        " --header a=b=c --header d= --idempotency-key k --idempotency-ttl 1h --reset-counts --no-update-payload"
    )

    ran = run("enqueue", "resize", '{"path": [1, null]}', *options.split(), "--json", url=url)
    again = run("enqueue", "resize", '{"path": [1, null]}', *options.split(), "--json", url=url)

    document = ran.document
    assert (ran.code, ran.err) == (0, "")
    assert (document["kind"], document["queue"], document["tenant"], document["status"]) == (
        "resize",
        "q",
        "acme",
        "created",
    )
    assert (again.code, again.document["status"]) == (0, "duplicate")
    record = found(url, Queue("q", "acme", 2), document["id"]).record
    assert record is not None
    policy = record.policy
    assert (record.run_at_ms, record.tag, record.headers) == (1_893_456_000_000, "t", {"a": "b=c", "d": ""})
    assert record.payload == b'{"path":[1,null]}'
    assert (policy.priority, policy.timeout_ms, policy.max_attempts, policy.max_stalls) == (7, 90_000, 4, 2)
    assert (policy.backoff_ms, policy.backoff_ms_max, policy.result_ttl_ms) == (2_000, 60_000, 86_400_000)
    assert policy.expires_at_ms == 1_900_000_000_000


def test_an_option_beats_the_function_and_a_terminal_shows_the_same(file_url: str, project: Path) -> None:
    words = ("enqueue", "welcome", '{"user_id": 1}', "--id", "u", "-q", "night", "--max-attempts", "2")

    ran = run(*words, url=file_url, cwd=project, terminal=True)
    again = run(*words, "--delay", "5m", url=file_url, cwd=project, terminal=True)

    assert ran.lines[0] == "job u was created on queue 'night'"
    assert again.lines[0] == "job u was already waiting on queue 'night' and was updated"
    job = found(file_url, "night", "u")
    assert job.record is not None
    assert job.record.policy.max_attempts == 2
    assert job.record.run_at_ms - job.record.enqueued_at_ms >= 300_000


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--payload-file", "payload.json"], {"from": "a file"}),
        ([], None),
        (['"a text"'], "a text"),
        (
            ["a=1", "b=true", 'c="2"', "d=x=y", "e=", "f=null"],
            {"a": 1, "b": True, "c": "2", "d": "x=y", "e": "", "f": None},
        ),
    ],
)
def test_a_payload_is_json_or_pairs_or_in_a_file(
    words: list[str], expected: object, file_url: str, project: Path, here: Here
) -> None:
    (project / "payload.json").write_text('{"from": "a file"}')

    ran = here("k", *words, "--no-app", "--id", "x", "--url", file_url, "--json")

    assert ran.document["queue"] == "elsewhere"
    assert payload(found(file_url, "elsewhere", "x")) == expected


def test_a_payload_may_be_piped_in(file_url: str) -> None:
    ran = run("enqueue", "k", "-", "--id", "x", "--json", url=file_url, input='{"a": 1}')

    assert (ran.code, payload(found(file_url, "default", "x"))) == (0, {"a": 1})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "a job needs a kind, as in: headrace enqueue greet name=Ada; app:app has welcome, add"),
        (["welcom", "user_id=1"], "no handler for kind 'welcom'; did you mean 'welcome'?"),
        (["welcome", "user_id=x"], "wrong arguments for welcome(user_id: int, name: str = ''): Expected `int`"),
        (["welcome", "[1]"], "the payload for welcome(user_id: int, name: str = '') must be an object of arguments"),
        (["add", "a=1", "b=2"], "the payload for add(a: int, b: int) must be an array of arguments; found {'a': 1"),
        (["welcome", '{"self": 1}'], "wrong arguments for welcome(user_id: int, name: str = ''): {'self': 1}"),
        (["welcome", "user_id"], "the payload 'user_id' is not valid JSON"),
        (["welcome", "user_id=1", "x"], "a payload is JSON in one word"),
        (["welcome", "user_id=1", "user_id=2"], "the payload names 'user_id' twice"),
        (["welcome", "user_id=1", "--payload-file", "x"], "a payload can be given once"),
        (["welcome", "--payload-file", "missing"], "the payload cannot be read from missing: No such file"),
        (["welcome", "user_id=1", "--delay", "soon"], "delay 'soon' is not a valid duration"),
        (["welcome", "user_id=1", "--run-at", "noon"], "run_at 'noon' is not a valid time"),
        (["welcome", "user_id=1", "--header", "x"], "--header must be NAME=VALUE; found 'x'"),
        (["welcome", "user_id=1", "--priority", "11"], "priority"),
        (["--from", "missing.jsonl"], "the jobs cannot be read from missing.jsonl: No such file"),
        (["--from", "-", "--id", "x"], "--id applies to one job, and --from sends many"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_one_sentence(
    words: list[str], message: str, project: Path, here: Here
) -> None:
    ran = here(*words)

    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert ran.err.startswith(f"headrace: {message}")
    assert list(project.glob("*.db")) == []


def test_the_result_is_waited_for_and_printed(url: str) -> None:
    with start("worker", "--register", "up=echo", "--register", "down=fail", "--json", url=url) as worker:
        until(worker, "started")
        done = run("enqueue", "up", "x=1", "--wait", "30s", url=url)
        dead = run("enqueue", "down", "--max-attempts", "1", "--wait", "30s", "--json", url=url)
        worker.terminate()
        worker.communicate(timeout=30)
    late = run("enqueue", "up", "--wait", "10ms", url=url)

    assert (done.code, done.lines[1:], done.err) == (0, ['{"x":1}'], "")
    assert (dead.code, dead.document["outcome"]) == (1, "dead")
    assert "died (attempts) of RuntimeError: this job fails on purpose" in dead.document["error"]
    assert late.code == 1
    assert "has not ended in time, it is waiting" in late.lines[1]


def test_what_the_store_will_not_have_is_an_answer(url: str) -> None:
    first = run("enqueue", "k", "a=1", "--idempotency-key", "x", url=url)
    conflict = run("enqueue", "k", "a=2", "--idempotency-key", "x", url=url)
    shards = run("enqueue", "k", "--shards", "3", "--json", url=url)

    assert (first.code, conflict.code, shards.code) == (0, 1, 1)
    assert conflict.lines[0].startswith("conflict: idempotency key 'x' of job")
    assert (shards.document["status"], shards.err) == ("wrong_shards", "")


def test_a_worker_that_was_seen_lately_needs_no_hint(file_url: str) -> None:
    async def claim(store: Store) -> None:
        await store.jobs.claim(ClaimRequest(queues=[Queue("default")], worker="w", nonce="12345678"))

    assert run("enqueue", "k", url=file_url).err != ""
    with_store(file_url, claim)

    assert run("enqueue", "k", url=file_url).err == ""


@pytest.mark.parametrize(
    "words",
    [
        ["user_id=1"],
        ["user_id=1", "--tenant", "acme"],
        ["user_id=1", "--tenant", "acme", "--queue", "night"],
        ["user_id=1", "--queue", "night"],
        ["user_id=1", "--app", "app"],
        ["user_id=1", "--tenant", "acme", "--url", "sqlite:///other place.db"],
        ["user_id=1", "--no-app"],
        ["user_id=1", "--no-app", "--tenant", "acme"],
    ],
)
def test_the_worker_that_the_hint_names_runs_the_job(words: list[str], file_url: str, project: Path) -> None:
    sent = run("enqueue", "welcome", *words, url=file_url, cwd=project)

    [hint] = sent.err.splitlines()
    start = shlex.split(hint.partition("start one with: ")[2].replace("APP", "app:app"))
    assert start[0] == "headrace"
    ran = run(*start[1:], "--until-idle", "--log", "text", url=file_url, cwd=project)

    assert (ran.code, ran.lines) == (0, ["1 claimed: 1 done"]), hint


def test_no_worker_is_named_for_a_queue_that_only_an_app_can_reach(file_url: str, project: Path) -> None:
    ran = run("enqueue", "welcome", "user_id=1", "-q", "wide", "--shards", "3", url=file_url, cwd=project)

    assert ran.err.endswith("a worker needs a function in its app with queue=Queue('wide', 'default', 3)\n")


def paused(url: str, *queues: Queue) -> None:
    async def pause(store: Store) -> None:
        for queue in queues:
            await store.queues.configure(queue, {"paused": True})

    with_store(url, pause)


def test_a_paused_queue_is_reported_with_the_command_to_resume_it(url: str) -> None:
    paused(url, Queue("mail"), Queue("mail", "acme"))

    ran = run("enqueue", "k", "-q", "mail", url=url)
    tenant = run("enqueue", "k", "-q", "mail", "--tenant", "acme", "--json", url=url)
    other = run("enqueue", "k", "--json", url=url)

    assert (ran.code, ran.lines[0].endswith("was created on queue 'mail'")) == (0, True)
    assert ran.err == "queue 'mail' is paused; nothing on it runs until: headrace queues resume mail\n"
    assert (tenant.code, tenant.document["paused"], tenant.err) == (0, True, "")
    assert "paused" not in other.document


def test_paused_queues_of_a_file_are_reported(file_url: str) -> None:
    paused(file_url, Queue("mail", "acme"))
    text = lines({"kind": "k"}, {"kind": "k", "queue": "mail", "tenant": "acme"})

    ran = run("enqueue", "--from", "-", url=file_url, input=text)
    in_json = run("enqueue", "--from", "-", "--json", url=file_url, input=text)

    assert (ran.code, ran.lines) == (0, ["2 jobs: 2 created"])
    assert ran.err == "queue 'mail' is paused; nothing on it runs until: headrace queues resume mail --tenant acme\n"
    assert in_json.document["paused"] == [{"tenant": "acme", "queue": "mail"}]


@pytest.mark.parametrize(
    "words", [("enqueue", "k", "--id", "a", "-q", "mail"), ("jobs", "result", "a", "--queue", "mail")]
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_after_an_interrupted_wait_the_output_says_how_to_look_at_the_job(
    words: tuple[str, ...], form: tuple[str, ...]
) -> None:
    with RedisServer().launch() as server:
        run("enqueue", "k", "--id", "a", "-q", "mail", url=server.url)

        with start(*words, *form, "--wait", "10m", url=server.url) as waiting:
            wait_until(lambda: re.search(rb" s?sub=[1-9]", server.ask("CLIENT", "LIST")) is not None, "waiting")
            waiting.send_signal(signal.SIGINT)
            out, err = waiting.communicate(timeout=30)
        message = (json.loads(out).get("error") or json.loads(out)["message"]) if form else err.splitlines()[-1]
        shown = run(*shlex.split(message.partition("with: ")[2])[1:], url=server.url)

    assert waiting.returncode == 130
    assert message == ("stopped waiting for job a, which continues; see it with: headrace jobs show a --queue mail")
    assert shown.code == 0


def lines(*jobs: dict[str, Any]) -> str:
    return "".join(json.dumps(job) + "\n" for job in jobs)


def test_the_jobs_of_a_file_are_sent_with_their_own_options(url: str, project: Path) -> None:
    text = lines(
        {"kind": "welcome", "payload": {"user_id": 1}, "id": "a", "run_at": "2030-01-01T00:00:00Z"},
        {"payload": {"user_id": 2}, "id": "b", "queue": "night", "delay": "1h", "headers": {"x": "y"}},
        {"kind": "add", "payload": [1, 2], "id": "a", "queue": "mail", "priority": 9},
    )

    ran = run("enqueue", "welcome", "--from", "-", "--tag", "t", url=url, cwd=project, input="\n" + text)

    assert (ran.code, ran.lines, ran.err) == (0, ["3 jobs: 2 created, 1 updated"], "")
    twice, once = found(url, "mail", "a"), found(url, "night", "b")
    assert twice.record is not None
    assert once.record is not None
    assert (twice.record.kind, payload(twice), twice.record.policy.priority) == ("add", [1, 2], 9)
    assert (twice.record.run_at_ms, once.record.headers) == (1_893_456_000_000, {"x": "y"})
    assert (once.record.tag, once.record.policy.max_attempts) == ("t", 7)


def test_a_file_is_checked_before_it_is_sent(file_url: str, project: Path, here: Here) -> None:
    file = project / "jobs.jsonl"
    good = {"kind": "add", "payload": [1, 2]}

    def tried(wrong: str) -> Ran:
        file.write_text(lines(good) + "\n" + wrong + "\n" + lines(good))
        return here("--from", "jobs.jsonl", "--url", file_url)

    sentences = {
        '{"kind": "ad"}': "no handler for kind 'ad'; did you mean 'add'?",
        '{"kind": "add", "payload": [1, "2"]}': "wrong arguments for add(a: int, b: int)",
        '{"kind": "add", "dely": "5m"}': "a job has no 'dely'; did you mean 'delay'?",
        '{"payload": [1, 2]}': 'the job has no kind; add one ("kind": "greet"), or give one KIND for all lines',
        "[1]": "not a valid JSON object",
    }
    ran = {wrong: tried(wrong) for wrong in sentences}

    for wrong, message in sentences.items():
        assert ran[wrong].code == 2
        assert ran[wrong].err.startswith(f"headrace: line 3 is wrong: {message}")
        assert ran[wrong].err.endswith("; nothing was sent\n")
    assert not (project / "headrace.db").exists()
    assert with_store(file_url, lambda store: store.queues.names("default")).rows == []


def test_a_large_file_is_sent_in_parts_up_to_the_wrong_line(file_url: str, project: Path) -> None:
    line = '{"kind": "k"}\n'
    (project / "jobs.jsonl").write_text(line * (LINES_CHECKED_MAX + 5) + '{"kin": "k"}\n' + line)

    ran = run("enqueue", "--from", "jobs.jsonl", "--no-app", "-q", "q", url=file_url, cwd=project)

    assert (ran.code, ran.out) == (4, "")
    assert ran.err == (
        "headrace: line 10,006 is wrong: a job has no 'kin'; did you mean 'kind'?; lines 1 to 10,000 were sent (10,000"
        " created) and none after them; continue with line 10,001\n"
    )
    assert count(file_url, "q") == LINES_CHECKED_MAX


def test_lines_that_the_store_will_not_have_are_named(url: str) -> None:
    async def fill(store: Store) -> None:
        await store.queues.configure(Queue("small"), {"waiting_max": 2})

    with_store(url, fill)
    jobs: Sequence[dict[str, Any]] = [{"kind": "k", "id": f"j{n}"} for n in range(4)]

    in_json = run("enqueue", "--from", "-", "-q", "small", "--json", url=url, input=lines(*jobs))

    document = in_json.document
    assert (in_json.code, document["sent"], document["statuses"]) == (1, 2, {"created": 2, "full": 2})
    assert [(each["line"], each["id"], each["status"]) for each in document["refused"]] == [
        (3, "j2", "full"),
        (4, "j3", "full"),
    ]
    listed = with_store(url, lambda store: store.reads.list(Queue("small"), State.WAITING))
    assert [job.id for job in listed.rows] == ["j0", "j1"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("fail", "lines 1 to 10,000 were sent (10,000 created) and none after them; continue with line 10,001"),
        ("lose", "lines 1 to 10,000 were sent (10,000 created), and of lines 10,001 to 10,003 some may have been"),
    ],
)
async def test_a_store_lost_half_way_is_reported_with_the_jobs_sent(fault: str, message: str) -> None:
    store = FaultyStore(await open_store("memory://"))
    file = io.BytesIO(b'{"kind": "k"}\n' * (LINES_CHECKED_MAX + 3))
    factory, report = JobFactory(App("memory://"), {}, is_checked=False), LineReport()

    sender = line_sender(Client(store), factory, None, set())
    with pytest.raises(OutcomeUnknown) as caught:
        await send(file, sender, report, lambda _: getattr(store, fault)("enqueue"))

    assert message in str(caught.value)
    assert (report.lines, report.sent) == (LINES_CHECKED_MAX, LINES_CHECKED_MAX)


async def test_a_store_that_is_away_from_the_start_has_got_nothing() -> None:
    store = FaultyStore(await open_store("memory://"))
    sender = line_sender(Client(store), JobFactory(App("memory://"), {}, is_checked=False), "k", set())

    with store.down(), pytest.raises(StoreUnavailable):
        await send(io.BytesIO(b"{}\n"), sender, LineReport(), lambda _: None)
