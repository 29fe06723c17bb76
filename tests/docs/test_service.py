"""Every request of the page about the service is sent as it is printed, one after the other, to a service."""

import json
import os
import re
import subprocess
from pathlib import Path

import httpx

from headrace.service.caller import SCOPES
from tests.service.test_commands import serving

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/service.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_request_of_the_page_is_answered(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text("utf-8"))
    answers: list[dict[str, object]] = []
    with serving("--url", "memory://", folder=tmp_path) as (url, printed):
        token = printed.rpartition("export HEADRACE_TOKEN=")[2].strip()
        environment = {**os.environ, "URL": url, "HEADRACE_TOKEN": token}
        for block in blocks:
            ran = subprocess.run(["sh", "-e", "-c", block], env=environment, capture_output=True, text=True, check=True)
            for text in ran.stdout.replace("}{", "}\n{").splitlines():
                answers.append(json.loads(text))
                for job in answers[-1].get("claims", []):  # type: ignore[attr-defined]  # a list, if it is there
                    environment["LEASE_TOKEN"] = job["token"]
        paths = httpx.get(f"{url}/v1/openapi.json").json()["paths"]

    assert [each for each in answers if str(each.get("type", "")).startswith("urn:headrace:problem")] == []
    assert {"status": "created"}.items() <= answers[0].items()
    assert answers[3]["result"] == "Hello, Ada!"
    assert answers[-1]["value"] == 1
    assert len(paths) > 40


def test_the_page_names_every_scope_and_only_known_problems() -> None:
    from headrace.service.problems import PROBLEMS

    text = PAGE.read_text("utf-8")
    table = text.partition("## Errors")[2].partition("## Limits")[0]
    named = set(re.findall(r"`([a-z_]+)`", table)) - {"type", "detail", "instance"}

    assert [scope for scope in SCOPES if f"| `{scope}` |" not in text] == []
    assert named <= PROBLEMS.keys()
