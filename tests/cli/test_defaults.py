"""Promises of defaults: an option wins over the environment, it over the command's table, it over the general one."""

from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.cli.program import COMMANDS, defaults_of
from headrace.model.errors import BadConfig
from headrace.stores.contract.store import Store
from tests.cli.support import run, with_store
from tests.support.play import Play

TENANTS = ("default", "general", "command", "deeper", "environment", "option")


async def one_queue_each(store: Store) -> None:
    for tenant in TENANTS:
        await Play(store, name=f"of-{tenant}", tenant=tenant).enqueue("one")


def listed(*words: str, cwd: Path, env: dict[str, str] | None = None) -> str:
    """The queue of the tenant that the command took."""
    [queue] = run("queues", *words, "--json", cwd=cwd, env=env).document["queues"]
    return str(queue["queue"])


def write(folder: Path, table: str) -> None:
    (folder / "pyproject.toml").write_text(table)


def test_the_nearest_place_that_says_a_setting_wins(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with_store(url, one_queue_each)
    below = tmp_path / "below"
    below.mkdir()
    env = {"HEADRACE_TENANT": "environment"}

    write(tmp_path, f'[tool.headrace]\nurl = "{url}"\n')
    found = [listed(cwd=below)]
    write(tmp_path, f'[tool.headrace]\nurl = "{url}"\ntenant = "general"\n')
    found.append(listed(cwd=below))
    write(tmp_path, f'[tool.headrace]\nurl = "{url}"\ntenant = "general"\n[tool.headrace.queues]\ntenant = "command"\n')
    found.append(listed(cwd=below))
    with (tmp_path / "pyproject.toml").open("a") as file:
        file.write('[tool.headrace.queues.list]\ntenant = "deeper"\n')
    found.append(listed(cwd=below))
    found.append(listed(cwd=below, env=env))
    found.append(listed("--tenant", "option", cwd=below, env=env))

    assert found == [f"of-{tenant}" for tenant in TENANTS]


def test_options_without_a_variable_of_their_own_have_one_by_their_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with_store(url, one_queue_each)

    ran = run("queues", "--tenant", "*", url=url, env={"HEADRACE_QUEUES_LIST_JSON": "1"})

    assert len(ran.document["queues"]) == len(TENANTS)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[tool.headrace]\ntennant = 'x'", "[tool.headrace] of pyproject.toml has no setting 'tennant'; did you mean"),
        ("[tool.headrace]\nxyzzy = 1", "has no setting 'xyzzy'; known settings: url, tenant, queue, app, init, worker"),
        ("[tool.headrace.queues]\ntenent = 'x'", "has no setting 'tenent'; did you mean 'tenant'?"),
        (
            "[tool.headrace.queues.list]\nyes = true",
            "[tool.headrace.queues.list] of pyproject.toml has no setting 'yes'",
        ),
        ("[tool.headrace]\nqueues = 3", "queues in [tool.headrace] of pyproject.toml must be a table; found 3"),
        ("[tool.headrace]\ntenant = 'No Body'", "tenant 'No Body' is not a name"),
        ("[tool]\nheadrace = 3", "must be a table; found 3"),
        ("[tool.headrace\n", "cannot be read for its [tool.headrace] table: "),
    ],
)
def test_a_setting_that_nothing_has_is_refused_with_the_nearest(
    table: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, table)
    with_store(f"sqlite:///{tmp_path}/headrace.db", one_queue_each)
    monkeypatch.chdir(tmp_path)

    code = main(["queues"])

    output = capfd.readouterr()
    assert (code, output.out) == (2, "")
    assert message in output.err
    assert output.err.count("\n") == 1


def test_settings_reach_the_commands_that_have_them_and_no_others() -> None:
    def alone(url: str, metrics_port: int = 0) -> None: ...
    def show(url: str, name: str) -> None: ...

    table = {"url": "redis://a", "queue": "mail", "worker": {"metrics-port": 9}, "queues": {"show": {"name": "x"}}}

    assert defaults_of(table, "worker", {None: alone}, COMMANDS) == {"worker": {"url": "redis://a", "metrics_port": 9}}
    assert defaults_of(table, "queues", {"show": show}, COMMANDS) == {
        "queues": {"show": {"url": "redis://a", "name": "x"}}
    }
    with pytest.raises(BadConfig, match=r"\[tool.headrace.worker\] of pyproject.toml has no setting 'name'"):
        defaults_of({"worker": {"name": "x"}}, "worker", {None: alone}, COMMANDS)


def test_a_command_without_a_url_looks_where_the_project_s_app_keeps_its_jobs(tmp_path: Path) -> None:
    with_store(f"sqlite:///{tmp_path}/shop.db", one_queue_each)
    (tmp_path / "shop.py").write_text(f'from headrace import App\n\njobs = App("sqlite:///{tmp_path}/shop.db")\n')
    write(tmp_path, '[tool.headrace]\napp = "shop:jobs"\n')

    assert listed(cwd=tmp_path) == "of-default"
    assert run("queues", cwd=tmp_path, env={"HEADRACE_APP": "shop:job"}).code == 2
    assert run("queues", cwd=tmp_path, url="sqlite:///none.db").code == 3


def many(queues: list[str] | None = None, capacity: int = 1, lease: str | None = None) -> None:
    """A command with an option that may be given several times."""


def test_a_setting_for_an_option_that_may_be_repeated_is_one_text_or_a_list() -> None:
    for setting in ("mail", ["mail"]):
        found = defaults_of(
            {"worker": {"queues": setting, "capacity": 5, "lease": 5}}, "worker", {None: many}, COMMANDS
        )
        assert found == {"worker": {"queues": ["mail"], "capacity": 5, "lease": "5"}}


@pytest.mark.parametrize("table", [{"queues": 5}, {"queues": [5]}, {"capacity": [1]}, {"capacity": {"x": 1}}])
def test_a_setting_that_no_option_can_take_is_refused(table: dict[str, object]) -> None:
    with pytest.raises(BadConfig, match=r"in \[tool.headrace\] of pyproject.toml must be"):
        defaults_of({"worker": table}, "worker", {None: many}, COMMANDS)
