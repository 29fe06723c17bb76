"""Plants faults in the HTTP service, one at a time in a copy of the tree: for each a security test must fail."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 120


class ServiceFault(NamedTuple):
    """A piece of a module of the service that is replaced, and the tests that must notice."""

    module: str
    old: str
    new: str
    tests: str
    words: str


FAULTS: dict[str, ServiceFault] = {
    "the audience is not checked": ServiceFault(
        "tokens", '    _check_audience(claims.get("aud"), issuer.audience)\n', "", "test_tokens", "corpus_is"
    ),
    "the token chooses its algorithm": ServiceFault(
        "tokens",
        "    if len(matches) != 1 or algorithm not in matches[0].algorithms:",
        "    if len(matches) != 1:",
        "test_tokens",
        "corpus_is",
    ),
    "the first claim for the tenant counts": ServiceFault(
        "tokens",
        "any(each != named[0] or type(each) is not str for each in named)",
        "type(named[0]) is not str",
        "test_tokens",
        "corpus_is",
    ),
    "members may be given twice": ServiceFault(
        "tokens", "    if len(members) != len(pairs):", "    if False:", "test_tokens", "corpus_is"
    ),
    "members of the header are ignored": ServiceFault(
        "tokens", "    if not _HEADERS_REFUSED.isdisjoint(header):", "    if False:", "test_tokens", "corpus_is"
    ),
    "a cursor is for every tenant": ServiceFault(
        "cursors",
        "(call.operation.name, call.tenant, *scope)",
        "(call.operation.name, *scope)",
        "test_queues",
        "counts",
    ),
    "a worker has any name": ServiceFault(
        "caller",
        "whole = name if name.startswith(prefix) else prefix + name",
        "whole = name",
        "test_tenants",
        "journal or slash",
    ),
    "scopes are not checked": ServiceFault(
        "caller", "        if scopes and not scopes & self.scopes:", "        if False:", "test_tokens", "exactly"
    ),
    "the scope alone makes an operator": ServiceFault(
        "tokens",
        'is_operator="operator" in scopes and subject in issuer.operators',
        'is_operator="operator" in scopes or subject in issuer.operators',
        "test_tokens",
        "operator_needs",
    ),
    "a token may name every queue": ServiceFault(
        "caller",
        "        if self.queues is not None and not any(_covers(pattern, full_name) for pattern in self.queues):",
        "        if False:",
        "test_tokens",
        "names_only",
    ),
    "a head has no bound": ServiceFault(
        "guard", "if self._head_bytes > HEAD_BYTES_MAX:", "if False:", "test_raw_sockets", "17_KB or headers"
    ),
    "the id of a request is echoed as it came": ServiceFault(
        "reply",
        "return given if _REQUEST_ID.fullmatch(given) else",
        "return given if given else",
        "test_raw_sockets",
        "plain_request_id",
    ),
    "gzip has no bound": ServiceFault(
        "body",
        "        found = reader.decompress(body, bound + 1)",
        "        found = reader.decompress(body)[: 1 << 62]; bound = 1 << 62",
        "test_raw_sockets",
        "gigabytes",
    ),
    "tokens outlive their key": ServiceFault(
        "auth", "        self._accepted.clear()\n", "        pass\n", "test_jwks", "rotate"
    ),
    "each unknown key is a fetch": ServiceFault(
        "jwks", "pause_s = JWKS_PAUSE_S if forced", "pause_s = 0 if forced", "test_jwks", "flood"
    ),
    "requests are logged with their query": ServiceFault(
        "guard", "        self.access_log = False", "        self.access_log = True", "test_tokens", "log_line"
    ),
    "a body is as deep as it likes": ServiceFault(
        "body", "        if is_too_deep(body):", "        if False:", "test_raw_sockets", "levels"
    ),
}


def plant_service_faults(report: Callable[[str], None]) -> int:
    """Plant each fault and run its tests; returns how many were not noticed."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="headrace-service-faults-") as name:
        copy = Path(name)
        for folder in ("src", "tests", "tools", "docs", "deploy"):
            shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for file in sorted({fault.tests for fault in FAULTS.values()}):
            if _fails(copy, file):
                raise RuntimeError(f"{file} fails without any fault; mend that first")
        for what, fault in FAULTS.items():
            module = copy / f"src/headrace/service/{fault.module}.py"
            source = module.read_text("utf-8")
            assert source.count(fault.old) == 1, f"{fault.module} has {source.count(fault.old)} times: {fault.old}"
            module.write_text(source.replace(fault.old, fault.new), "utf-8")
            noticed = _fails(copy, fault.tests, "-k", fault.words)
            module.write_text(source, "utf-8")
            missed += not noticed
            report(f"  {what}: {'noticed' if noticed else 'NOT NOTICED'}")
    report(f"service: {len(FAULTS) - missed} of {len(FAULTS)} planted faults were noticed")
    return missed


def _fails(root: Path, file: str, *words: str) -> bool:
    """Whether a test fails; no test at all is no answer."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"tests/service/{file}.py", *words]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    try:
        ran = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"{file} did not run: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.returncode == 1
