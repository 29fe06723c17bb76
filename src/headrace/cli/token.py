"""`headrace token`: makes keys and tokens for the service, and shows what a token says."""

import base64
import json as json_module
import sys
from typing import Annotated, Any

import typer

from headrace.cli.options import Json, command_group
from headrace.cli.output import Output
from headrace.cli.parse import typed_duration
from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig
from headrace.model.times import duration_ms, instant_text

KeyFile = Annotated[str, typer.Option("--key", metavar="FILE", help="Private key or secret to sign with.")]


def claims_of(
    tenant: str,
    subject: str,
    scopes: list[str],
    now_s: int,
    lifetime_s: int,
    *,
    issuer: str = "headrace",
    audience: str = "headrace",
    queues: list[str] | None = None,
) -> dict[str, Any]:
    """The claims of a token."""
    claims: dict[str, Any] = {
        "iss": issuer,
        "aud": audience,
        "sub": subject,
        "tid": tenant,
        "scope": " ".join(scopes),
        "iat": now_s,
        "exp": now_s + lifetime_s,
    }
    return claims if queues is None else claims | {"queues": queues}


def make(
    key: KeyFile,
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant of the token.")],
    scopes: Annotated[
        list[str],
        typer.Option("--scope", help="Scope: enqueue, claim, read, feeds, admin or operator; repeat for more."),
    ],
    lifetime: Annotated[str, typer.Option("--for", help="How long the token is valid.")] = "1h",
    subject: Annotated[str, typer.Option("--subject", help="Who the token is for.")] = "cli",
    queues: Annotated[
        list[str] | None,
        typer.Option("--queue", "-q", help="Queue or feed that it may name, NAME or BEGINNING*; all by default."),
    ] = None,
    issuer: Annotated[str, typer.Option("--issuer", help="Issuer of the token (iss).")] = "headrace",
    audience: Annotated[str, typer.Option("--audience", help="Audience of the token (aud).")] = "headrace",
    json: Json = False,
) -> None:
    """Print a token for the service.

    Example: headrace token make --key private.jwk --tenant acme --scope enqueue --for 1h
    """
    from headrace.service.caller import SCOPES
    from headrace.service.issuers import IssuerTable, issuer_of
    from headrace.service.keys import load_keys
    from headrace.service.tokens import BadToken, read_token, sign_token

    for scope in scopes:
        if scope not in SCOPES:
            raise BadConfig(f"there is no scope {scope[:40]!r}; scopes: {', '.join(SCOPES)}")
    source = issuer_of(IssuerTable(name=issuer, keys=[key], audience=audience, lifetime_max="31d"))
    signing = [each for each in load_keys(key) if each.is_secret]
    if len(signing) != 1:
        raise BadConfig("--key must hold one private key or secret; headrace token key makes one")
    now_s = SystemClock().now_ms() // 1_000
    lifetime_s = duration_ms("for", typed_duration(lifetime)) // 1_000
    claims = claims_of(
        tenant, subject, scopes, now_s, lifetime_s, issuer=issuer, audience=audience, queues=queues or None
    )
    token = sign_token(signing[0], claims)
    try:
        read_token(token.encode(), {issuer: source}, now_s)  # what the service would refuse is not made
    except BadToken as bad:
        raise BadConfig(
            f"the service would refuse this token ({bad}); check --tenant, --subject, --queue and --for"
        ) from bad
    output = Output(json=json)
    output.document({"token": token, "claims": claims})
    output.say(token)


def key(
    file: Annotated[str, typer.Argument(help="File to make; its public part is printed.")],
    kid: Annotated[str, typer.Option("--kid", help="Name of the key in tokens.")] = "key-1",
    json: Json = False,
) -> None:
    """Make an Ed25519 key for tokens and print its public part.

    Example: headrace token key private.jwk
    """
    from headrace.service.keys import new_key, public_jwk, write_key

    made_key = new_key(kid)
    write_key(made_key, file)
    output, public = Output(json=json), public_jwk(made_key)
    output.document({"file": file, "public": json_module.loads(public)})
    output.say(public)


def show(
    token: Annotated[str, typer.Argument(help="Token, or - for stdin. It is sent nowhere.")],
    json: Json = False,
) -> None:
    """Show what a token says, without checking its signature.

    Example: headrace token show -
    """
    text = sys.stdin.read().strip() if len(token) == 1 else token
    parts = text.split(".")
    header, claims = (_decoded(part) for part in [*parts, "", ""][:2])
    output = Output(json=json)
    output.document({"header": header, "claims": claims})
    for name, value in claims.items():
        instant = f" ({instant_text(value * 1_000)})" if name in ("exp", "iat", "nbf") and type(value) is int else ""
        output.say(f"{name}: {value}{instant}")
    expires_at_s = claims.get("exp")
    if len(parts) != 3:
        output.say("This is not a signed token: it has not three parts.")
    elif type(expires_at_s) is int and expires_at_s * 1_000 <= SystemClock().now_ms():
        output.say("It has expired.")


def _decoded(part: str) -> dict[str, Any]:
    try:
        found = json_module.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadConfig("this is not a token: header and claims are JSON objects in base64url")
    return found


commands = command_group(make=make, key=key, show=show)
