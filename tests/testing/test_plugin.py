"""The pytest plugin: its fixtures cost nothing in runs that do not use them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import BadConfig
from headrace.testing import AsyncKit, Kit, KitClock, KitStore
from headrace.testing.plugin import project_app
from tests.testing import shop

pytest_plugins = ["pytester"]

QUICKLY = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:xdist", "-p", "no:anyio")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/testing"
TEST = "def test_it(headrace):\n    assert headrace.app.registry.find('ping')\n"
APP = "from headrace import App\njobs = App()\n\n@jobs.job\nasync def ping() -> None: ...\n"


def test_the_fixtures_belong_together(headrace: Kit, headrace_store: KitStore, headrace_clock: KitClock) -> None:
    assert isinstance(headrace, Kit)
    assert headrace.app is shop.app
    assert headrace.store is headrace_store
    assert headrace.clock is headrace_clock


async def test_a_coroutine_gets_an_async_kit(headrace: AsyncKit) -> None:
    assert isinstance(headrace, AsyncKit)


def test_the_plugin_imports_nothing_that_a_run_without_jobs_would_pay_for() -> None:
    program = (
        "import pytest, sys; before = set(sys.modules); import headrace.testing.plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )

    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert modules == ["headrace", "headrace._lazy", "headrace.testing", "headrace.testing.plugin"]


def test_the_project_names_its_app_also_for_a_run_in_a_folder_below(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml('[tool.headrace]\napp = "first_shop:jobs"\n[tool.pytest.ini_options]\n')
    pytester.makepyfile(first_shop=APP)
    below = pytester.mkdir("below")
    (below / "test_it.py").write_text(TEST)
    os.chdir(below)

    pytester.runpytest_inprocess(*QUICKLY).assert_outcomes(passed=1)


def test_a_missing_app_is_reported_in_one_sentence(pytester: pytest.Pytester) -> None:
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\n")
    pytester.makepyfile(test_it=TEST)

    result = pytester.runpytest_inprocess(*QUICKLY)

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['no app was named for the fixture headrace; write app = "module:name" under *'])
    assert "Traceback" not in result.stdout.str()


def test_the_configuration_of_pytest_wins_over_that_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.headrace]\napp = "nowhere:app"\n')
    (tmp_path / "third_shop.py").write_text(APP)

    assert project_app(tmp_path, "third_shop:jobs").registry.find("ping")
    with pytest.raises(BadConfig, match="there is no module 'nowhere' in "):
        project_app(tmp_path, "")
    with pytest.raises(BadConfig, match=r"found nothing of that name; did you mean third_shop:jobs\?"):
        project_app(tmp_path, "third_shop")


def test_the_example_runs_in_a_pytest_of_its_own() -> None:
    """As the docs say: plain tests, coroutines by another plugin, and all of it in the time of a breath."""
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=EXAMPLE,
        env={name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "HEADRACE_"))},
        capture_output=True,
        text=True,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout
    assert re.search(r"^8 passed in ", finished.stdout, flags=re.MULTILINE)
    assert sorted(path.name for path in EXAMPLE.glob("*.db*")) == []
