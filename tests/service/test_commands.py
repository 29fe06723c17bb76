"""`headrace serve` and `headrace token`, as a person would run them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

COMMAND = [sys.executable, "-m", "headrace.cli.main"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}


def headrace(*words: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], cwd=folder, env=ENVIRONMENT, input=stdin, capture_output=True, text=True, check=False
    )


@contextmanager
def serving(*words: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The URL of a service in a process of its own, and what it printed before it listened; it must end with 0."""
    command = [*COMMAND, "serve", "--port", "0", *words]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            if line.startswith("serving on "):
                yield line.split()[-1], printed
                break
            printed += line
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_a_service_without_keys_serves_this_machine_with_the_token_it_prints(tmp_path: Path) -> None:
    with serving("--url", "memory://", folder=tmp_path) as (url, printed):
        token = printed.rpartition("export HEADRACE_TOKEN=")[2].strip()
        answer = httpx.post(f"{url}/v1/jobs", json={"kind": "k"}, headers={"authorization": f"Bearer {token}"})
        without = httpx.get(f"{url}/v1/me")

    assert "for this machine only" in printed
    assert (answer.status_code, without.status_code) == (202, 401)


@pytest.mark.parametrize("words", [["--host", "0.0.0.0"], ["--host", "::"], ["--host", "192.0.2.1"]])  # noqa: S104 - refused
def test_a_service_without_keys_refuses_an_address_beyond_this_machine(tmp_path: Path, words: list[str]) -> None:
    ran = headrace("serve", "--url", "memory://", *words, folder=tmp_path)

    assert ran.returncode == 2
    assert "anybody who reaches" in ran.stderr


def test_the_caller_may_not_choose_the_time_beyond_this_machine(tmp_path: Path) -> None:
    headrace("token", "key", "key.jwk", folder=tmp_path)

    ran = headrace("serve", "--key", "key.jwk", "--host", "0.0.0.0", "--trust-now", folder=tmp_path)  # noqa: S104 - refused

    assert (ran.returncode, "--trust-now" in ran.stderr) == (2, True)


def test_a_token_made_with_a_key_is_accepted_by_a_service_with_its_public_part(tmp_path: Path) -> None:
    public = headrace("token", "key", "private.jwk", folder=tmp_path).stdout
    (tmp_path / "public.jwk").write_text(public)
    words = ["--key", "private.jwk", "--tenant", "acme", "--scope", "enqueue", "--queue", "mail", "--for", "5m"]
    token = headrace("token", "make", *words, folder=tmp_path).stdout.strip()
    with serving("--key", "public.jwk", "--url", "sqlite:///s.db", folder=tmp_path) as (url, _):
        me = httpx.get(f"{url}/v1/me", headers={"authorization": f"Bearer {token}"}).json()

    assert "d" not in json.loads(public)
    assert (tmp_path / "private.jwk").stat().st_mode & 0o077 == 0
    assert (me["tenant"], me["scopes"], me["queues"]) == ("acme", ["enqueue"], ["mail"])


def test_a_token_that_the_service_would_refuse_is_not_made(tmp_path: Path) -> None:
    headrace("token", "key", "k.jwk", folder=tmp_path)
    good = {"--key": "k.jwk", "--tenant": "acme", "--scope": "read"}
    for change in ({"--tenant": "Acme"}, {"--scope": "root"}, {"--for": "40d"}, {"--queue": "a/b"}, {"--subject": ""}):
        words = [word for pair in (good | change).items() for word in pair]
        ran = headrace("token", "make", *words, folder=tmp_path)

        assert (ran.returncode, ran.stdout) == (2, ""), change


def test_what_a_token_says_is_shown_without_its_signature(tmp_path: Path) -> None:
    headrace("token", "key", "k.jwk", folder=tmp_path)
    made = headrace("token", "make", "--key", "k.jwk", "--tenant", "acme", "--scope", "read", folder=tmp_path).stdout

    shown = headrace("token", "show", "-", "--json", folder=tmp_path, stdin=made)
    broken = headrace("token", "show", "x.y.z", folder=tmp_path)

    assert json.loads(shown.stdout)["claims"]["tid"] == "acme"
    assert made.rpartition(".")[2].strip() not in shown.stdout
    assert (broken.returncode, "not a token" in broken.stderr) == (2, True)


def test_a_service_without_its_store_ends_and_shows_no_password(tmp_path: Path) -> None:
    ran = headrace("serve", "--url", "postgres://user:hunter2@127.0.0.1:1/jobs", folder=tmp_path)

    assert ran.returncode == 3
    assert "hunter2" not in ran.stdout + ran.stderr
