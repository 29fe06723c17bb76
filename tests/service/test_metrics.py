"""What the service shows to Prometheus and systemd, and the deployment files that rely on it."""

import asyncio
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import typer
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from headrace.cli.program import build_program
from headrace.client.queue_metrics import QueueMetrics
from headrace.service.metrics import metrics_text
from headrace.service.table import OPERATIONS
from headrace.stores.open import open_store
from headrace.worker.metrics import Metrics, PrometheusPage
from tests.service.support import Running, running, token
from tests.support.process import free_port
from tools.servers import nginx_program

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
NAME = re.compile(r"\bheadrace_[a-z_]+")


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text("utf-8")) if each]


def started_commands() -> Iterator[tuple[str, list[str]]]:
    """The commands that the deployment files start, without the program's name."""
    for unit in sorted((DEPLOY / "systemd").iterdir()):
        [line] = re.findall(r"^ExecStart=(.*)$", unit.read_text("utf-8"), re.MULTILINE)
        yield unit.name, shlex.split(line)[1:]
    [line] = re.findall(r"^CMD (.*)$", (DEPLOY / "Containerfile").read_text("utf-8"), re.MULTILINE)
    yield "Containerfile", msgspec.json.decode(line)
    for name, service in documents(DEPLOY / "compose.yaml")[0]["services"].items():
        if "build" in service and "command" in service:
            yield f"compose.yaml, {name}", service["command"]
    for path in sorted((DEPLOY / "kubernetes").iterdir()):
        for document in documents(path):
            if document["kind"] == "Deployment":
                yield path.name, document["spec"]["template"]["spec"]["containers"][0]["args"]


COMMANDS = dict(started_commands())


@pytest.mark.parametrize("where", COMMANDS)
def test_the_commands_of_deployment_files_have_the_options_they_use(where: str) -> None:
    """C35."""
    words = COMMANDS[where]
    program: Any = typer.main.get_command(build_program(words))

    context = program.commands[words[0]].make_context(words[0], words[1:])

    assert context.params["metrics_port"] in (9100, 9101)


def test_probes_and_scalers_ask_for_paths_that_exist() -> None:
    """CB19."""
    text = "".join(path.read_text("utf-8") for path in (DEPLOY / "kubernetes").iterdir())
    routes = {re.sub(r"{[^}]*}", "mail", operation.route) for operation in OPERATIONS}
    probes = set(re.findall(r"path: (/health/\S+?),", text)) | set(re.findall(r'url: "http://headrace(\S+)"', text))
    of_workers = {"/health"}

    assert probes - of_workers
    assert probes - of_workers <= routes


async def test_dashboards_and_alerts_use_metrics_that_exist() -> None:
    store = await open_store("memory://")
    metrics = Metrics()
    async with running(store, queue_metrics=QueueMetrics(store, ["mail"], "acme")) as service:
        async with service.client() as client:
            await client.post("/v1/jobs", json={"queue": "mail", "kind": "work"})
        await service.service.queue_metrics.refresh()
        pages = metrics_text(service.service) + PrometheusPage(metrics.registry)("")[0].decode()
    names = {family.name for family in text_string_to_metric_families(pages)}
    names |= {"headrace_worker_up", "headrace_worker_capacity", "headrace_worker_in_hand"}  # of a running worker
    used = set()
    for path in (DEPLOY / "grafana/headrace.json", DEPLOY / "prometheus/headrace.rules.yml"):
        used |= {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in NAME.findall(path.read_text("utf-8"))}
    await store.close()

    assert len(used) > 10
    assert used <= names


def test_the_dashboard_has_panels_with_ids_of_their_own() -> None:
    dashboard = msgspec.json.decode((DEPLOY / "grafana/headrace.json").read_bytes())
    ids = [panel["id"] for panel in dashboard["panels"]]

    assert len(ids) == len(set(ids)) > 10
    assert documents(DEPLOY / "prometheus/headrace.rules.yml")[0]["groups"][0]["rules"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not there")
@pytest.mark.parametrize("unit", ["headrace.service", "headrace-worker@.service"])
def test_systemd_knows_every_setting_of_the_units(unit: str, tmp_path: Path) -> None:
    text = re.sub(
        r"^ExecStart=\S+", "ExecStart=/bin/true", (DEPLOY / "systemd" / unit).read_text("utf-8"), flags=re.MULTILINE
    )
    (tmp_path / unit).write_text(text)

    ran = subprocess.run(["systemd-analyze", "verify", tmp_path / unit], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")


def test_systemd_hears_when_the_service_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(30)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        command = [sys.executable, "-m", "headrace.cli.main", "serve", "--url", "memory://", "--port", "0"]
        with subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
            ready = listener.recv(100)
            process.send_signal(signal.SIGTERM)
            stopping = listener.recv(100)

    assert (ready, stopping, process.returncode) == (b"READY=1", b"STOPPING=1", 0)


def test_the_metrics_of_the_service_show_the_chosen_queues(tmp_path: Path) -> None:
    port = free_port()
    words = ["serve", "--url", "memory://", "--port", "0", "--json", "--metrics-port", str(port)]
    command = [sys.executable, "-m", "headrace.cli.main", *words, "--metrics-queues", "ma*"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = msgspec.json.decode(process.stdout.readline())
        headers = {"authorization": f"Bearer {said['token']}"}
        httpx.post(f"{said['url']}/v1/jobs", json={"queue": "mail", "kind": "work"}, headers=headers)
        page = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        process.send_signal(signal.SIGTERM)

    assert 'headrace_queue_jobs{tenant="default",queue="mail",state="ready"} 1' in page
    assert "headrace_store_up 1" in page


async def test_ids_with_a_slash_pass_through_nginx_as_configured(service: Running, tmp_path: Path) -> None:
    program = nginx_program()
    assert program is not None
    port = free_port()
    site = (DEPLOY / "nginx/headrace.conf").read_text("utf-8")
    site = site.replace("127.0.0.1:8080", f"127.0.0.1:{service.port}").replace(
        "listen 80;", f"listen 127.0.0.1:{port};"
    )
    (tmp_path / "site.conf").write_text(site)
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/nginx.pid; error_log {tmp_path}/error.log; daemon off; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}/body; proxy_temp_path {tmp_path}/proxy;"
        f" fastcgi_temp_path {tmp_path}/f; uwsgi_temp_path {tmp_path}/u; scgi_temp_path {tmp_path}/s;"
        f" include {tmp_path}/site.conf; }}\n"
    )
    command = [program, "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "error.log")]
    process = await asyncio.create_subprocess_exec(*command)
    try:
        transport = httpx.AsyncHTTPTransport(retries=10)
        headers = {"authorization": f"Bearer {token()}"}
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers=headers, transport=transport
        ) as client:
            made = await client.post("/v1/jobs", json={"queue": "mail", "kind": "work", "id": "a/b c"})
            shown = await client.get("/v1/queues/mail/jobs/a%2Fb%20c")
    finally:
        process.terminate()
        await process.wait()

    assert (made.status_code, shown.status_code, shown.json()["id"]) == (202, 200, "a/b c")
    assert re.fullmatch(r"[0-9a-f]{32}", shown.headers["x-request-id"])
