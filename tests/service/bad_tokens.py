"""Tokens that must not be accepted, each with one thing wrong."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from joserfc.jwk import ECKey, OctKey, RSAKey
from joserfc.jws import JWSRegistry

from headrace.service.keys import AuthKey, key_of
from headrace.service.tokens import Issuer, StaticKeys
from tests.service.support import claims, signing_key


def b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


@cache
def keys() -> dict[str, AuthKey]:
    """One key of each type; the Ed25519 key is that of all good tokens."""
    rsa = RSAKey.generate_key(2048, {"kid": "r1", "alg": "RS256"})
    curve = ECKey.generate_key("P-256", {"kid": "e1"})
    secret = OctKey.generate_key(256, {"kid": "h1"})
    return {
        "ed": signing_key(),
        "rsa": key_of(rsa.as_dict(private=True), "rsa"),
        "ec": key_of(curve.as_dict(private=True), "ec"),
        "oct": key_of(secret.as_dict(private=True), "oct"),
    }


@cache
def other_keys() -> dict[str, AuthKey]:
    """Keys of somebody else, under our names."""
    rsa = RSAKey.generate_key(2048, {"kid": "r1", "alg": "RS256"})
    return {"rsa": key_of(rsa.as_dict(private=True), "rsa")}


def issuers() -> list[Issuer]:
    """The issuers that the corpus knows; the second may speak for one tenant only."""
    return [
        Issuer(name="headrace", keys=StaticKeys([*keys().values()])),
        Issuer(name="https://one.example", keys=StaticKeys([keys()["ed"]]), tenants=("solo",)),
    ]


def make(
    changes: dict[str, object] | None = None,
    header: dict[str, object] | None = None,
    *,
    key: str | AuthKey = "ed",
    alg: str | None = None,
    drop: tuple[str, ...] = (),
    raw_claims: bytes | None = None,
    raw_header: bytes | None = None,
    sign: Callable[[bytes], bytes] | None = None,
) -> bytes:
    """A token with these changes; without any, a good one."""
    signer = keys()[key] if isinstance(key, str) else key
    algorithm = alg or signer.algorithm
    head = json.dumps({"alg": algorithm, "kid": signer.kid, "typ": "at+jwt", **(header or {})}).encode()
    body = {name: value for name, value in (claims() | (changes or {})).items() if name not in drop}
    signed = b64(raw_header or head) + b"." + b64(raw_claims or json.dumps(body).encode())
    if sign is not None:
        return signed + b"." + b64(sign(signed))
    signature: bytes = JWSRegistry.algorithms[algorithm].sign(signed, signer.jwk)
    return signed + b"." + b64(signature)


def _hmac(secret: bytes) -> Callable[[bytes], bytes]:
    return lambda signed: hmac.new(secret, signed, hashlib.sha256).digest()


def good_tokens() -> dict[str, bytes]:
    """Tokens that must be accepted: the corpus refuses for the right reason."""
    now_s: Any = claims()["iat"]
    return {
        "Ed25519": make(),
        "EdDSA, its old name": make(alg="EdDSA"),
        "RS256": make(key="rsa"),
        "ES256": make(key="ec"),
        "HS256": make(key="oct"),
        "audiences": make({"aud": ["x", "headrace"]}),
        "two tenant claims that agree": make({"tenant_id": "acme"}),
        "scp": make({"scp": ["read"]}, drop=("scope",)),
        "an issuer's own tenant": make({"iss": "https://one.example", "tid": "solo"}),
        "queues": make({"queues": ["mail", "img-*"]}),
        "ended 28 s ago": make({"exp": now_s - 23, "iat": now_s - 60}),
    }


def bad_tokens() -> dict[str, bytes]:
    """All of them, by what is wrong."""
    return _malformed() | _forged() | _headers() | _times() | _parties() | _tenants() | _members()


def _malformed() -> dict[str, bytes]:
    return {
        "empty": b"",
        "two parts": b"a.b",
        "four parts": make() + b".x",
        "leading space": b" " + make(),
        "trailing dot": make() + b".",
        "padding": make() + b"==",
        "not ASCII": make()[:-1] + "é".encode(),
        "9 KB": make({"x": "y" * 9_000}),
        "encrypted, five parts": b".".join([b"eyJhbGciOiJkaXIifQ"] * 5),
        "detached payload": b".".join([make().split(b".")[0], b"", make().split(b".")[2]]),
        "claims are a list": make(raw_claims=b"[]"),
        "claims are text": make(raw_claims=b'"x"'),
        "claims are null": make(raw_claims=b"null"),
        "claims in UTF-16": make(raw_claims=json.dumps(claims()).encode("utf-16")),
        "claims with a BOM": make(raw_claims=b"\xef\xbb\xbf" + json.dumps(claims()).encode()),
        "claims with trailing text": make(raw_claims=json.dumps(claims()).encode() + b"x"),
        "claims with a comment": make(raw_claims=json.dumps(claims()).encode()[:-1] + b"/**/}"),
        "claims too deep": make(
            raw_claims=json.dumps(claims()).encode()[:-1] + b', "x": ' + b"[" * 9 + b"]" * 9 + b"}"
        ),
        "claims far too deep": make(raw_claims=b'{"x":' + b"[" * 2_900 + b"]" * 2_900 + b"}"),
        "header of 600 bytes": make(header={"x": "y" * 600}),
        "base64 instead of base64url": base64.b64encode(b'{"alg":"Ed25519"}???') + make()[make().index(b".") :],
    }


def _forged() -> dict[str, bytes]:
    pem = keys()["rsa"].jwk.as_pem(private=False)  # type: ignore[union-attr]  # the RSA key of the corpus
    jwk = json.dumps(keys()["rsa"].jwk.as_dict(private=False)).encode()
    body = make().rsplit(b".", 1)[0]
    return {
        "alg none": make(raw_header=b'{"alg":"none"}', sign=lambda _: b"x"),
        "alg none, no signature": b64(b'{"alg":"none","kid":"test"}') + body[body.index(b".") :] + b".",
        "alg NoNe": make(raw_header=b'{"alg":"NoNe","kid":"test"}', sign=lambda _: b"x"),
        "no alg": make(raw_header=b'{"kid":"test"}', sign=lambda _: b"x"),
        "alg is a list": make(raw_header=b'{"alg":["Ed25519"],"kid":"test"}', sign=lambda _: b"x"),
        "alg is empty": make(raw_header=b'{"alg":"","kid":"test"}', sign=lambda _: b"x"),
        "alg HS512": make(raw_header=b'{"alg":"HS512","kid":"h1"}', sign=lambda _: b"x"),
        "HMAC with the RSA key's PEM": make(raw_header=b'{"alg":"HS256","kid":"r1"}', sign=_hmac(pem)),
        "HMAC with the RSA key's PEM, no kid": make(raw_header=b'{"alg":"HS256"}', sign=_hmac(pem)),
        "HMAC with the RSA key's JWK": make(raw_header=b'{"alg":"HS256","kid":"r1"}', sign=_hmac(jwk)),
        "HMAC with an empty secret": make(raw_header=b'{"alg":"HS256","kid":"h1"}', sign=_hmac(b"")),
        "RS256 by another key": make(key=other_keys()["rsa"]),
        "PS256 for a key of RS256": make(key="rsa", alg="PS256"),
        "RS512 for a key of RS256": make(key="rsa", alg="RS512"),
        "signature cut": make()[:-4],
        "signature of zeros": body + b"." + b64(bytes(64)),
        "signature of ECDSA, of zeros": make(key="ec").rsplit(b".", 1)[0] + b"." + b64(bytes(64)),
        "signature of other claims": body + b"." + make({"tid": "beta"}).rsplit(b".", 1)[1],
        "claims of another token": b".".join(
            [make().split(b".")[0], make({"tid": "b"}).split(b".")[1], make().split(b".")[2]]
        ),
    }


def _headers() -> dict[str, bytes]:
    jwk = other_keys()["rsa"].jwk.as_dict(private=False)
    twice = b'{"alg":"none","alg":"Ed25519","kid":"test"}'
    return {
        "unknown kid": make(header={"kid": "zz"}),
        "kid is a path": make(header={"kid": "../../dev/null"}),
        "kid is SQL": make(header={"kid": "test' or 1=1"}),
        "kid is a number": make(header={"kid": 1}),
        "kid is a list": make(header={"kid": ["test"]}),
        "kid is null": make(header={"kid": None}),
        "kid is long": make(header={"kid": "k" * 129}),
        "jku": make(header={"jku": "https://evil.example"}),
        "x5u": make(header={"x5u": "https://evil.example"}),
        "jwk": make(
            raw_header=json.dumps({"alg": "RS256", "jwk": {"kty": "RSA", "e": jwk["e"]}}).encode(), sign=lambda _: b"x"
        ),
        "x5c": make(header={"x5c": ["AAAA"]}),
        "crit": make(header={"crit": ["exp"]}),
        "b64 is false": make(header={"b64": False}),
        "zip": make(header={"zip": "DEF"}),
        "enc": make(header={"enc": "A256GCM"}),
        "typ JWE": make(header={"typ": "JWE"}),
        "typ dpop+jwt": make(header={"typ": "dpop+jwt"}),
        "typ is a number": make(header={"typ": 1}),
        "alg given twice": make(
            raw_header=twice, sign=lambda each: JWSRegistry.algorithms["Ed25519"].sign(each, signing_key().jwk)
        ),
    }


def _times() -> dict[str, bytes]:
    now_s: Any = claims()["iat"]
    body = json.dumps(claims())

    def raw(text: str) -> bytes:
        return make(raw_claims=body.replace(f'"exp": {now_s + 605}', f'"exp": {text}').encode())

    return {
        "expired": make({"exp": now_s - 40, "iat": now_s - 60}),
        "no exp": make(drop=("exp",)),
        "exp is text": make({"exp": str(now_s + 60)}),
        "exp is a float": make({"exp": now_s + 60.5}),
        "exp is 1e30": raw("1e30"),
        "exp is NaN": raw("NaN"),
        "exp is Infinity": raw("Infinity"),
        "exp is huge": make({"exp": 10**40}),
        "exp is true": make({"exp": True}),
        "exp is null": make({"exp": None}),
        "exp is negative": make({"exp": -1}),
        "exp is a list": make({"exp": [now_s + 60]}),
        "no iat": make(drop=("iat",)),
        "iat is null": make({"iat": None}),
        "iat is ahead": make({"iat": now_s + 3_600, "exp": now_s + 3_700}),
        "nbf is ahead": make({"nbf": now_s + 3_600}),
        "nbf is text": make({"nbf": "0"}),
        "nbf is null": make({"nbf": None}),
        "lives a year": make({"exp": now_s + 31_536_000}),
        "ends before it begins": make({"iat": now_s, "exp": now_s - 5}),
    }


def _parties() -> dict[str, bytes]:
    return {
        "no aud": make(drop=("aud",)),
        "aud of another service": make({"aud": "other"}),
        "aud is longer": make({"aud": "headrace2"}),
        "aud list of others": make({"aud": ["other"]}),
        "aud is an object": make({"aud": {"headrace": 1}}),
        "aud list with a number": make({"aud": ["headrace", 1]}),
        "aud list of 17": make({"aud": ["headrace"] * 17}),
        "no iss": make(drop=("iss",)),
        "iss unknown": make({"iss": "https://evil.example"}),
        "iss is longer": make({"iss": "headrace.evil.example"}),
        "iss with a slash": make({"iss": "headrace/"}),
        "iss is a list": make({"iss": ["headrace"]}),
        "iss is an object": make({"iss": {}}),
        "no sub": make(drop=("sub",)),
        "sub is empty": make({"sub": ""}),
        "sub with a line break": make({"sub": "a\r\nb"}),
        "sub is long": make({"sub": "x" * 129}),
        "sub is an object": make({"sub": {}}),
        "sub is half a character": make(raw_claims=json.dumps(claims()).replace('"svc"', '"\\ud800"').encode()),
        "jti is a number": make({"jti": 7}),
        "jti is empty": make({"jti": ""}),
    }


def _tenants() -> dict[str, bytes]:
    texts = [
        "",
        "Acme",
        "acme ",
        "\tacme",
        "acme\n",
        "acme\0",
        "\u0430cme",
        "a}:{b",
        "*",
        "acme/x",
        "a" * 64,
        "1acme",
        "acme\u0661",
    ]
    body = json.dumps(claims())
    return {f"tenant {text!r}": make({"tid": text}) for text in texts} | {
        "no tenant": make(drop=("tid",)),
        "tenant is a list": make({"tid": ["acme"]}),
        "tenant is a number": make({"tid": 7}),
        "tenant is null": make({"tid": None}),
        "two tenant claims that differ": make({"tenant_id": "beta"}),
        "a null tenant claim beside": make({"tenantId": None}),
        "an empty tenant claim beside": make({"organization_id": ""}),
        "tenant given twice": make(raw_claims=(body[:-1] + ', "tid": "beta"}').encode()),
        "a nested member given twice": make(raw_claims=(body[:-1] + ', "x": {"a": 1, "a": 2}}').encode()),
        "a tenant of another issuer": make({"iss": "https://one.example"}),
    }


def _members() -> dict[str, bytes]:
    return {
        "scope is a list": make({"scope": ["admin"]}),
        "scope is null": make({"scope": None}),
        "scp is text": make({"scp": "admin"}, drop=("scope",)),
        "scp holds a number": make({"scp": ["admin", 1]}, drop=("scope",)),
        "scope and scp differ": make({"scp": ["admin"]}),
        "queues is text": make({"queues": "mail"}),
        "queues is empty": make({"queues": []}),
        "queues is null": make({"queues": None}),
        "queues are no names": make({"queues": ["*.*", "a/b"]}),
        "queues has an empty name": make({"queues": [""]}),
        "queues has 101 names": make({"queues": ["a"] * 101}),
    }
