"""Run the examples for Airflow, Dagster, dbt and Jupyter, each in an environment of its own.

    python -m tools.examples         all of them
    python -m tools.examples dbt     those that are named

Airflow alone brings 130 packages, and dbt holds back some that the checks of this repository need. So the environments
lie in `.venv-examples`, made from the `requirements.txt` of each example, and run the `headrace` of `.venv`.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from headrace import App, Fail

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("airflow", "dagster", "dbt", "notebook")


def fill(url: str) -> None:
    """Make a store with jobs: three that were done, one that was done at its second attempt, and one that died."""
    app = App(url)
    attempts: list[int] = []

    @app.job
    def ping(n: int) -> int:
        return n

    @app.job(max_attempts=2, backoff="1ms")
    def flaky() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("try again")

    @app.job(max_attempts=1)
    def broken() -> None:
        raise Fail("no such file: 17")

    ping.blocking.enqueue_many([{"n": n} for n in range(3)])
    flaky.blocking.enqueue()
    broken.blocking.enqueue()
    app.run_worker(until_idle=True)


def environment(name: str) -> Path:
    """The Python of an example's environment, made when it is not there or its requirements have changed."""
    folder, requirements = ROOT / ".venv-examples" / name, ROOT / "examples" / name / "requirements.txt"
    stamp, python = folder / ".ready", folder / "bin" / "python"
    wanted = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"examples: making the environment of {name}", flush=True)
        venv.create(folder, clear=True, with_pip=True)
        pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
        subprocess.run([*pip, "-r", requirements], check=True)
        if name == "notebook":  # its kernel runs Headrace and Spark themselves, those of .venv
            [packages] = (Path(sys.prefix) / "lib").glob("python3*/site-packages")
            [own] = (folder / "lib").glob("python3*/site-packages")
            (own / "headrace.pth").write_text(f"{ROOT / 'src'}\n{packages}\n")
        stamp.write_text(wanted)
    return python


def run(name: str) -> bool:
    """Run the tests of an example on a store of its own; whether they passed."""
    python = environment(name)
    with tempfile.TemporaryDirectory(prefix=f"headrace-{name}-") as folder:
        url = f"sqlite:///{folder}/jobs.db"
        fill(url)
        env = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("HEADRACE_", "AIRFLOW_"))},
            "HEADRACE_URL": url,
            "HEADRACE_PIPELINE_DIR": f"{folder}/headrace-data",
            "HEADRACE_COMMAND": str(Path(sys.executable).parent / "headrace"),
            "AIRFLOW_HOME": f"{folder}/airflow",
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "examples" / name),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "DAGSTER_HOME": folder,
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "False",
        }
        if name == "airflow":
            subprocess.run([python.parent / "airflow", "db", "migrate"], env=env, check=True, capture_output=True)
        words: list[str | Path] = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            "--rootdir",
            folder,
        ]
        tests = sorted((ROOT / "examples" / name).glob("test_*.py"))
        print(f"\n== {name}", flush=True)
        return subprocess.run([*words, *tests], cwd=folder, env=env, check=False).returncode == 0


def main(names: Sequence[str]) -> int:
    """Run the examples of these names; all of them for none."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"examples: there is no example {unknown[0]!r}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    failed = [name for name in names or NAMES if not run(name)]
    print(f"\nexamples: {', '.join(failed)} failed" if failed else "\nexamples: all passed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
