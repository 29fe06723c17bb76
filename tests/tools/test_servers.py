"""Promises of tools/servers.py and of the servers that tests start: nothing runs that should not, nothing is left."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres_servers import PostgresServer, is_alive
from tests.support.process import new_folder, wait_until
from tests.support.redis_servers import RedisServer
from tools import servers
from tools.setup import SetupFailed

ROOT = Path(__file__).resolve().parents[2]


def test_nothing_is_installed_when_both_servers_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "PACKAGES", {"redis-server": lambda: "/usr/bin/redis-server"})
    monkeypatch.setattr(servers, "install", lambda packages, lock: pytest.fail("installed"))

    servers.ensure()


def test_only_what_is_missing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, object] = {"redis-server": None, "postgresql": "/usr/bin"}
    monkeypatch.setattr(servers, "PACKAGES", {name: lambda name=name: found[name] for name in found})
    monkeypatch.setattr(servers, "refuse_unable", lambda missing, is_root, apt: None)
    monkeypatch.setattr(servers, "install", lambda packages, lock: found.update(dict.fromkeys(packages, "there")))

    servers.ensure()

    assert found == {"redis-server": "there", "postgresql": "/usr/bin"}


def test_a_server_that_installing_did_not_bring_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "PACKAGES", {"redis-server": lambda: None})
    monkeypatch.setattr(servers, "refuse_unable", lambda missing, is_root, apt: None)
    monkeypatch.setattr(servers, "install", lambda packages, lock: None)

    with pytest.raises(SetupFailed, match="redis-server cannot be found after installing it"):
        servers.ensure()


def test_without_root_the_command_to_type_is_printed() -> None:
    with pytest.raises(SetupFailed, match=r"type: sudo apt-get update && sudo apt-get install .* redis-server, and"):
        servers.refuse_unable(["redis-server"], is_root=False, apt="/usr/bin/apt-get")


def test_a_system_without_apt_gets_the_list_of_missing_packages() -> None:
    with pytest.raises(SetupFailed, match="redis-server and postgresql is missing and there is no apt-get"):
        servers.refuse_unable(["redis-server", "postgresql"], is_root=True, apt=None)


def test_root_with_apt_may_install() -> None:
    servers.refuse_unable(["redis-server"], is_root=True, apt="/usr/bin/apt-get")


def test_no_service_may_start_and_no_cluster_be_made_while_installing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, clusters = tmp_path / "policy-rc.d", tmp_path / "createcluster.conf"
    clusters.write_text("ssl = on\n")
    monkeypatch.setattr(servers, "POLICY", policy)
    monkeypatch.setattr(servers, "CLUSTERS", clusters)
    monkeypatch.setattr(servers, "keep_down", lambda packages, lock: None)
    seen: list[tuple[str, int, bool]] = []

    def watch(command: list[str], lock: int, env: dict[str, str]) -> None:
        forbidden = subprocess.run([policy], check=False).returncode if policy.exists() else 0
        seen.append((command[-1], forbidden, "create_main_cluster = false" in clusters.read_text()))

    monkeypatch.setattr(servers, "run", watch)
    servers.install(["redis-server", "postgresql"], lock=0)

    assert seen == [("-qq", 0, False), ("postgresql-common", 101, False), ("postgresql", 101, True)]
    assert not policy.exists()
    assert clusters.read_text() == "ssl = on\n"


def test_only_services_are_kept_from_starting_at_the_next_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(servers, "run", lambda command, lock: ran.append(command))
    monkeypatch.setattr(servers, "Path", lambda path: ROOT)  # a system with systemd

    servers.keep_down(["redis-server", "chromium-headless-shell", "fonts-dejavu-core"], lock=0)
    servers.keep_down(["chromium-headless-shell"], lock=0)

    assert ran == [["systemctl", "disable", "--quiet", "redis-server"]]


def test_any_chromium_and_any_font_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    without = servers.browser_program()
    program = tmp_path / "chromium"
    program.touch(mode=0o755)

    assert (without, servers.browser_program()) == (None, str(program))
    assert servers.has_fonts(tmp_path) is None
    (tmp_path / "a.ttf").touch()
    assert servers.has_fonts(tmp_path)


def test_a_policy_of_the_system_is_back_in_its_place_even_after_a_failure(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    policy.chmod(0o700)

    with pytest.raises(SetupFailed), servers.written(policy, servers.FORBID, 0o755):
        raise SetupFailed("no network")

    assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    assert policy.stat().st_mode & 0o777 == 0o700


def test_a_policy_of_ours_left_behind_by_a_kill_is_removed_the_next_time(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text(servers.FORBID)

    with servers.written(policy, servers.FORBID, 0o755):
        pass

    assert not policy.exists()


def test_the_servers_of_tests_that_are_killed_die_with_them() -> None:
    program = """
import sys
from tests.support.postgres_servers import PostgresServer
from tests.support.redis_servers import RedisServer
servers = [RedisServer().launch(), PostgresServer().launch()]
print(*[server.pid for server in servers], flush=True)
sys.stdin.read()
"""
    folder = new_folder("killed")  # what killed tests leave behind
    folder.chmod(0o755)
    tests = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert tests.stdout is not None
    pids = [int(pid) for pid in tests.stdout.readline().split()]
    assert [is_alive(pid) for pid in pids] == [True, True]

    tests.send_signal(signal.SIGKILL)
    tests.communicate()

    wait_until(lambda: not any(is_alive(pid) for pid in pids), "the end of the servers")


@pytest.mark.parametrize("aof", ["always", None])
def test_a_killed_redis_comes_back_with_its_persisted_data(aof: str | None) -> None:
    with RedisServer(aof=aof).launch() as server:
        server.ask("SET", "kept", "1")

        server.kill()
        server.start()

        assert server.ask("EXISTS", "kept") == (1 if aof else 0)
        folder = server.folder
    assert not folder.exists()


def test_a_killed_postgres_comes_back_with_what_was_committed() -> None:
    with PostgresServer(fsync=True).launch() as server:
        server.ask("CREATE TABLE kept AS SELECT 1 AS one")

        server.kill()
        server.start()

        assert server.ask("SELECT one FROM kept") == [(1,)]
        folder = server.folder
    assert not folder.exists()
