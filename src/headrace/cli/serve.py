"""`headrace serve`: serves the store over HTTP to callers with tokens."""

import logging
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output
from headrace.model.errors import BadConfig

if TYPE_CHECKING:
    from headrace.service.keys import AuthKey
    from headrace.service.tokens import Issuer

DEV_HOURS = 12


def command(
    url: Url = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port; 0 takes a free one.")] = 8080,
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="FILE", help="Key that tokens are signed with: JWK, JWK set, PEM or secret."),
    ] = None,
    issuer: Annotated[
        str | None, typer.Option("--issuer", help="Issuer of the tokens (iss); an https URL publishes its keys.")
    ] = None,
    jwks: Annotated[
        str | None, typer.Option("--jwks", metavar="URL", help="Where the issuer publishes its keys.")
    ] = None,
    audience: Annotated[str, typer.Option("--audience", help="Audience of the tokens (aud).")] = "headrace",
    auth: Annotated[
        str | None, typer.Option("--auth", metavar="FILE", help="TOML file with several issuers, instead of --issuer.")
    ] = None,
    scope_prefix: Annotated[
        str, typer.Option("--scope-prefix", help="What the names of our scopes begin with in tokens.")
    ] = "",
    operators: Annotated[
        list[str] | None,
        typer.Option("--operator", metavar="SUBJECT", help="Subject that may be an operator; repeat for more."),
    ] = None,
    lifetime_max: Annotated[
        str | None, typer.Option("--token-lifetime-max", help="Longest life of a token; 24h by default, 31d at most.")
    ] = None,
    rates: Annotated[
        list[str] | None,
        typer.Option("--rate", metavar="CLASS=N[:BURST]", help="Rate of a tenant: write, read, search or stream."),
    ] = None,
    no_rates: Annotated[bool, typer.Option("--no-rates", help="Do not limit the rates of tenants.")] = False,
    cors_origins: Annotated[
        list[str] | None, typer.Option("--cors-origin", help="Origin of web pages that may call; repeat for more.")
    ] = None,
    worker_names: Annotated[
        Literal["subject", "as-given"],
        typer.Option("--worker-names", help="Whether names of workers begin with the subject of their token."),
    ] = "subject",
    trust_now: Annotated[
        bool, typer.Option("--trust-now", help="Let callers choose the time, for tests on this machine.")
    ] = False,
    metrics_port: Annotated[
        int | None, typer.Option("--metrics-port", min=1, max=65_535, help="Serve /metrics on this port.")
    ] = None,
    metrics_host: Annotated[str, typer.Option("--metrics-host", help="Address for --metrics-port.")] = "127.0.0.1",
    metrics_queues: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics-queues", metavar="[TENANT/]NAME", help="Show the jobs of a queue in /metrics; NAME* is a prefix."
        ),
    ] = None,
    dev_key: Annotated[
        str | None,
        typer.Option("--dev-key", metavar="FILE", help="Keep the key of a service without --key in this file."),
    ] = None,
    tls_cert: Annotated[str | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate for TLS.")] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="FILE", help="Key of the certificate.")] = None,
    tenant: Tenant = TENANT,
    json: Json = False,
) -> None:
    """Serve the store over HTTP.

    Without --key, --issuer or --auth it serves this machine only: it makes a key, and prints a token for --tenant.

    Example: headrace serve --key public.jwk --host 0.0.0.0
    """
    _needing_service()
    import asyncio

    import uvloop

    from headrace.service.issuers import IssuerTable, checked_issuers, issuer_of, read_auth_file
    from headrace.service.rates import read_rates
    from headrace.service.serve import ListenAddress
    from headrace.service.settings import ServiceSettings, check_host
    from headrace.service.tokens import ISSUER

    issuers: list[Issuer] = [] if auth is None else read_auth_file(auth)
    if keys or issuer is not None or jwks is not None:
        table = IssuerTable(
            name=issuer or ISSUER,
            keys=keys or [],
            jwks=jwks,
            is_published=issuer is not None and not keys,
            audience=audience,
            scope_prefix=scope_prefix,
            lifetime_max=lifetime_max,
            operators=operators or [],
        )
        issuers = checked_issuers([*issuers, issuer_of(table)])
    check_host(host, has_issuers=bool(issuers), trust_now=trust_now)
    if (tls_cert is None) != (tls_key is None):
        raise BadConfig("TLS needs --tls-cert and --tls-key; give both or none")
    settings = ServiceSettings(
        rates=None if no_rates or not issuers else read_rates(rates or []),
        worker_names_as_given=worker_names == "as-given",
        trust_now=trust_now,
        cors_origins=tuple(cors_origins or ()),
        version=_version(),
    )
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # the command itself says where it serves
    greeting = [] if issuers else _development(issuers, dev_key, tenant)
    address = ListenAddress(host, port, tls_cert, tls_key)
    metrics = None if metrics_port is None else ListenAddress(metrics_host, metrics_port)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        watched = metrics_queues or []
        runner.run(_serve(_store_url(url), issuers, settings, address, metrics, watched, tenant, greeting, json=json))


async def _serve(
    url: str,
    issuers: "list[Issuer]",
    settings: object,
    address: object,
    metrics: object,
    metrics_queues: list[str],
    tenant: str,
    greeting: list[str],
    *,
    json: bool,
) -> None:
    from headrace.client.queue_metrics import QueueMetrics
    from headrace.service.app import Service
    from headrace.service.serve import ListenAddress, serve
    from headrace.service.settings import ServiceSettings
    from headrace.stores.open import open_store

    assert isinstance(settings, ServiceSettings)
    assert isinstance(address, ListenAddress)
    assert metrics is None or isinstance(metrics, ListenAddress)
    store = await open_store(url)
    scheme = "http" if address.tls_cert is None else "https"

    def say(port: int) -> None:
        where = f"{scheme}://{address.host}:{port}"
        output = Output(json=json)
        output.document({"url": where, "token": greeting[-1].partition("=")[2] if greeting else None})
        for line in [*greeting, f"serving on {where}"]:
            if not json:
                print(line, flush=True)  # not through the output, which would take the token for a secret option
        sys.stdout.flush()

    try:
        watched = QueueMetrics(store, metrics_queues, tenant)
        service = Service(store, issuers, settings, queue_metrics=watched)
        await serve(service, address, metrics=metrics, on_ready=say)
    finally:
        await store.close()


def _store_url(url: str | None) -> str:
    """The store; one in memory is fine here, since other processes reach it over HTTP."""
    from headrace.app.discovery import is_memory, url_of
    from headrace.cli.store_access import resolve_url

    return url if url is not None and is_memory(url_of(url)) else resolve_url(url)


def _development(issuers: "list[Issuer]", path: str | None, tenant: str) -> list[str]:
    """Add an issuer with a key of our own; what to print, the token included."""
    from pathlib import Path

    from headrace.cli.token import claims_of
    from headrace.model.clock import SystemClock
    from headrace.service.caller import SCOPES
    from headrace.service.keys import load_keys, new_key, write_key
    from headrace.service.tokens import ISSUER, Issuer, StaticKeys, sign_token

    key: AuthKey = new_key("dev")
    if path is not None and Path(path).exists():
        [key] = load_keys(path)
    elif path is not None:
        write_key(key, path)
    issuers.append(Issuer(name=ISSUER, keys=StaticKeys([key])))
    scopes = [scope for scope in SCOPES if scope != "operator"]
    now_s = SystemClock().now_ms() // 1_000
    token = sign_token(key, claims_of(tenant, "dev", scopes, now_s, DEV_HOURS * 3_600))
    return [
        "This service is for this machine only; everybody with this token may do everything in its tenant.",
        f"export HEADRACE_TOKEN={token}",
    ]


def _needing_service() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn", "httptools", "uvloop", "joserfc") if find_spec(name) is None]
    if missing:
        raise BadConfig(f"headrace serve needs {', '.join(missing)}; pip install 'headrace[service]'")


def _version() -> str:
    from headrace.cli.program import version_of

    return version_of("headrace")
