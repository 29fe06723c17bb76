"""Promises that hold for every command: help, --json, exit codes, one sentence for what is wrong, quiet finished
jobs."""

import inspect
import json
import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer
from typer.models import ArgumentInfo, OptionInfo

from headrace.cli.exit_codes import code_of
from headrace.cli.main import main
from headrace.cli.program import COMMANDS, Command, build_program
from headrace.model.errors import BadConfig, OutcomeUnknown, Refused, StoreUnavailable
from headrace.stores.contract.store import Store
from tests.cli.support import COMMAND, RUN_S, environment, run, start, with_store
from tests.cli.tree import functions
from tests.support.play import Play
from tests.support.process import free_port


def test_help_names_every_command_and_version_prints_the_version() -> None:
    helped, short, version, nothing = run("--help"), run("-h"), run("--version"), run()

    listed = [line.split()[0] for line in helped.out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()]
    assert (helped.code, helped.err, helped.out) == (0, "", short.out)
    assert listed == [*COMMANDS] == [*dict.fromkeys(words[0] for words in functions())]
    assert (version.code, version.out.split()[0], version.err) == (0, "headrace", "")
    assert (nothing.code, nothing.out, nothing.err.rstrip()) == (2, "", helped.out.rstrip())


def explained(function: Callable[..., Any]) -> dict[str, OptionInfo | ArgumentInfo]:
    """What a command says of each of its options and arguments."""
    found: dict[str, OptionInfo | ArgumentInfo] = {}
    for name, hint in get_type_hints(function, include_extras=True).items():
        if name != "return" and hint is not typer.Context:
            found[name] = get_args(hint)[1]
    return found


@pytest.mark.parametrize("words", functions(), ids=" ".join)
def test_every_command_has_help_for_itself_and_each_option_and_can_speak_json(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    function = functions()[words]
    monkeypatch.chdir(tmp_path)

    assert main([*words, "--help"]) == 0

    output, group = capsys.readouterr().out, None
    if len(words) == 2:
        main([words[0], "--help"])
        group = capsys.readouterr().out
    sentence = (inspect.getdoc(function) or "").partition("\n")[0]
    assert output.startswith(f"Usage: headrace {' '.join(words)} ")
    assert sentence
    assert sentence.split(".")[0][:40] in " ".join(output.split())
    assert "--json" in output
    assert [name for name, info in explained(function).items() if not info.help] == []
    assert not any(str(place) in output for place in (tmp_path, Path.home(), Path(__file__).parents[2]))
    assert group is None or words[1] in [line.split()[0] for line in group.splitlines() if line.startswith("  ")]


@pytest.mark.parametrize("words", functions(), ids=" ".join)
def test_every_command_has_an_example_that_it_would_accept(words: tuple[str, ...]) -> None:
    paragraphs = [" ".join(each.split()) for each in (inspect.getdoc(functions()[words]) or "").split("\n\n")]
    example = shlex.split(paragraphs[-1].removeprefix("Example: ").partition(" > ")[0])

    assert paragraphs[-1].startswith(f"Example: headrace {' '.join(words)}")

    program: Any = typer.main.get_command(build_program(example[1:]))
    context = program.make_context("headrace", example[1:])
    while getattr(context.command, "commands", None):  # make_context raises for what the command would refuse
        name, command, rest = context.command.resolve_command(context, context._protected_args + context.args)
        context = command.make_context(name, rest, parent=context)


def test_help_shows_whole_descriptions_in_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    groups = dict.fromkeys(words[:-1] for words in functions())

    for words in groups:
        assert main([*words, "--help"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("  ") and (line.endswith("...") or len(line) > 80)] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["wrokers"], "No such command 'wrokers'"),
        (["queues", "prage"], "No such command 'prage'"),
        (["workers", "--tennant", "x"], "No such option: --tennant"),
        (["jobs", "list", "--limit", "many"], "Invalid value for '--limit' / '-n': "),
        (["jobs", "list", "--limit", "0"], "Invalid value for '--limit' / '-n': "),
        (["workers", "--url"], "Option '--url' requires an argument"),
        (["queues", "show"], "Missing argument 'NAME'"),
        (["workers", "extra"], "extra"),
        (["workers", "--url", "mysql://somewhere"], "no store for scheme 'mysql'; known URLs: memory://"),
        (["workers", "--url", "memory://"], "a store in memory ends with the command"),
        (["workers", "--tenant", "No Body"], "tenant 'No Body' is not a name"),
        (["workers", "--queue", "nowhere"], "tenant 'default' has no queue 'nowhere'; it has none yet"),
        (["queues", "--tenant", "x", "show", "mail"], "show mail"),
    ],
)
def test_what_is_wrong_is_one_sentence_on_stderr_and_exit_code_2(
    words: list[str], message: str, file_url: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(store: Store) -> None:
        await store.health()

    with_store(file_url, nothing)
    monkeypatch.setenv("HEADRACE_URL", file_url)

    in_text, text = main(words), capfd.readouterr()
    in_json, document = (
        main([*words[:1], "--json", *words[1:]] if "--url" in words else [*words, "--json"]),
        capfd.readouterr(),
    )

    assert (in_text, in_json, text.out, document.out) == (2, 2, "", "")
    assert text.err.startswith("headrace: ")
    assert text.err.count("\n") == document.err.count("\n") == 1
    assert message in text.err
    assert {"error", "message"} <= set(json.loads(document.err))


def test_a_refusal_has_its_reason_for_programs(file_url: str) -> None:
    with_store(file_url, lambda store: Play(store).enqueue("one"))

    ran = run("workers", "--queue", "nowhere", "--json", url=file_url)

    assert (ran.code, ran.out) == (2, "")
    assert json.loads(ran.err)["reason"] == "unknown_queue"


@pytest.mark.parametrize("scheme", ["redis", "postgres", "sqlite"])
def test_a_store_that_is_not_there_is_exit_code_3(scheme: str, tmp_path: Path) -> None:
    url = {
        "redis": f"redis://127.0.0.1:{free_port()}",
        "postgres": f"postgres://me:hunter2@127.0.0.1:{free_port()}/jobs",
        "sqlite": f"sqlite:///{tmp_path}/a@b=c/none.db",
    }[scheme]

    ran = run("queues", "--json", "--url", url, cwd=tmp_path)

    assert (ran.code, ran.out) == (3, "")
    assert json.loads(ran.err)["error"] == "StoreUnavailable"
    assert ("cannot be reached" if scheme != "sqlite" else f"there is no file {tmp_path}/a@b=c/none.db") in ran.err
    assert [*tmp_path.iterdir()] == []


def test_exit_codes_tell_the_errors_apart() -> None:
    errors = [Refused("no", "no"), BadConfig("no"), StoreUnavailable("gone"), OutcomeUnknown("lost")]

    assert [code_of(error) for error in errors] == [2, 2, 3, 4]


def test_a_bug_is_called_one_and_shows_its_traceback_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "faulty.py").write_text("def command(json: bool = False) -> None:\n    '''Fail.'''\n    1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(COMMANDS, "faulty", Command("faulty", "Fail."))

    code, output = main(["faulty"]), capsys.readouterr()
    in_json, document = main(["faulty", "--json"]), capsys.readouterr()
    monkeypatch.setenv("HEADRACE_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        main(["faulty"])

    assert (code, in_json, output.out, document.out) == (70, 70, "", "")
    assert output.err == (
        "headrace: this is a bug in Headrace: ZeroDivisionError: division by zero; HEADRACE_TRACEBACK=1"
        " shows the traceback\n"
    )
    assert json.loads(document.err)["error"] == "ZeroDivisionError"


@pytest.mark.parametrize("words", [["queues"], ["queues", "--json"], ["--help"]], ids=" ".join)
def test_a_reader_that_has_seen_enough_ends_it_quietly(words: list[str], file_url: str) -> None:
    with_store(file_url, lambda store: Play(store, tenant="default").enqueue("one"))
    reading, writing = os.pipe()
    os.close(reading)

    ran = subprocess.run(
        [*COMMAND, *words],
        env=environment(file_url),
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=RUN_S,
        check=False,
    )
    os.close(writing)

    assert (ran.returncode, ran.stderr) == (0, b"")


def test_an_interrupt_ends_it_quietly_with_130() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:  # takes the connection and never answers
        mute.settimeout(RUN_S)
        with start("workers", url=f"redis://127.0.0.1:{mute.getsockname()[1]}") as process:
            connection, _ = mute.accept()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=RUN_S)
        connection.close()

    assert (process.returncode, out, err) == (130, "", "")
