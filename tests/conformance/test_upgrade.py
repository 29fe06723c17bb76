"""A program goes on with the version that it began with, also after its package was upgraded or removed under it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headrace
from tests.support.upgrade import CALLS

SOURCE = Path(headrace.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


def run_on_copy(copy: Path, url: str) -> str:
    """The output of a program that ran with a copy of headrace and then replaced it; it must succeed."""
    shutil.copytree(SOURCE, copy / "headrace")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy), str(ROOT)]), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.support.upgrade", str(copy), url]
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.usefixtures("store")  # a fresh one
def test_an_open_store_answers_every_call_after_its_package_is_gone(shared_url: str, tmp_path: Path) -> None:
    """TB6: nothing is read from the package once a store is open, so nothing of another version either."""
    output = run_on_copy(tmp_path / "copy", shared_url)

    *calls, last = output.splitlines()
    assert last == "closed"
    assert [call for call in calls if not call.endswith(" ok")] == []
    assert len(calls) == len(CALLS)
