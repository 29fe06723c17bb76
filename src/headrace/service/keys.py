"""Loads the keys of issuers: each key is for one algorithm, which a token cannot choose."""

import json
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, JWKRegistry, OctKey, OKPKey, RSAKey
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.validate import bounded_repr, shown_path

ALGORITHMS: Final = frozenset({"RS256", "PS256", "ES256", "ES384", "Ed25519", "EdDSA", "HS256"})
_BY_CURVE = {"P-256": "ES256", "P-384": "ES384", "Ed25519": "Ed25519"}
_TYPES = {"RSA": {"RS256", "PS256"}, "EC": {"ES256", "ES384"}, "OKP": {"Ed25519", "EdDSA"}, "oct": {"HS256"}}
_RSA_BITS_MIN: Final = 2_048
_SECRET_BYTES_MIN: Final = 32
KID_CHARS_MAX: Final = 128
_OURS: Final = frozenset(("alg", "use", "key_ops"))
"""Members that are checked here: the library knows only one of the two names of Ed25519 for a key."""

Jwk = RSAKey | ECKey | OKPKey | OctKey


class AuthKey(Struct, frozen=True):
    """A key with the algorithm that it is for; Ed25519 has two names of one algorithm."""

    jwk: Jwk
    algorithm: str
    kid: str | None

    @property
    def algorithms(self) -> frozenset[str]:
        """The names of its algorithm in tokens."""
        return frozenset(("Ed25519", "EdDSA")) if self.algorithm == "Ed25519" else frozenset((self.algorithm,))

    @property
    def is_secret(self) -> bool:
        """Whether it can sign."""
        return isinstance(self.jwk, OctKey) or bool(self.jwk.is_private)


def load_keys(path: str) -> list[AuthKey]:
    """The keys of a file: a JWK, a set of them, a PEM key, or a shared secret of 32 bytes or more.

    Raises `BadConfig` for a weak or unknown key, and for a secret that others may read.
    """
    file = Path(path)
    try:
        data = file.read_bytes()
        mode = file.stat().st_mode
    except OSError as error:
        raise BadConfig(f"the key file {shown_path(path)} cannot be read ({error.strerror}); check its name") from error
    keys = _parse(data, shown_path(path))
    if any(key.is_secret for key in keys) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadConfig(f"the key file {shown_path(path)} holds a secret that others may read; chmod 600 it")
    return keys


def _parse(data: bytes, where: str) -> list[AuthKey]:
    text = data.strip()
    if text.startswith(b"{"):
        try:
            document = json.loads(text)
        except ValueError as error:
            raise BadConfig(f"the key file {where} is not JSON ({error})") from error
        members = document.get("keys", [document])
        if not isinstance(members, list) or not members:
            raise BadConfig(f"the key file {where} holds no keys")
        return [key_of(member, where) for member in members]
    if text.startswith(b"-----BEGIN"):
        return [_pem_key(text, where)]
    return [_checked(_import(OctKey.import_key, text), None, None, where)]


def _pem_key(text: bytes, where: str) -> AuthKey:
    for kind in (RSAKey, ECKey, OKPKey):
        try:
            return _checked(_import(kind.import_key, text), None, None, where)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
    raise BadConfig(f"the key file {where} holds no RSA, P-256, P-384 or Ed25519 key in PEM")


def key_of(member: object, where: str) -> AuthKey:
    """The key of a JWK; raises `BadConfig` for one that cannot be used."""
    if not isinstance(member, Mapping):
        raise BadConfig(f"a key of {where} is {bounded_repr(member)}; a JWK is an object")
    if member.get("use", "sig") != "sig":
        raise BadConfig(f"a key of {where} is not for signatures")
    algorithm, kid = member.get("alg"), member.get("kid")
    if kid is not None and (not isinstance(kid, str) or len(kid) > KID_CHARS_MAX):
        raise BadConfig(f"a key of {where} has the kid {bounded_repr(kid)}; a kid is text")
    try:
        jwk = _import(JWKRegistry.import_key, {name: member[name] for name in member if name not in _OURS})
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise BadConfig(f"a key of {where} is not a JWK ({type(error).__name__})") from error
    return _checked(jwk, algorithm, kid, where)


def _import(load: Callable[[Any], Any], data: object) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # a weak key is refused below
        return load(data)


def _checked(jwk: Any, algorithm: object, kid: str | None, where: str) -> AuthKey:
    kind = jwk.key_type
    if kind == "RSA" and jwk.raw_value.key_size < _RSA_BITS_MIN:
        raise BadConfig(f"an RSA key of {where} has fewer than {_RSA_BITS_MIN:,} bits; use a longer one")
    if kind == "oct" and len(jwk.raw_value) < _SECRET_BYTES_MIN:
        raise BadConfig(f"a secret of {where} has fewer than {_SECRET_BYTES_MIN} bytes; use a longer one")
    curve = jwk.curve_name if kind in ("EC", "OKP") else None
    default = {"RSA": "RS256", "oct": "HS256"}.get(kind) or _BY_CURVE.get(str(curve))
    chosen = default if algorithm is None else algorithm
    if chosen not in ALGORITHMS or chosen not in _TYPES.get(kind, ()) or default is None:
        raise BadConfig(f"a key of {where} is for {bounded_repr(chosen)}; use one for {', '.join(sorted(ALGORITHMS))}")
    if kind != "RSA" and chosen not in (default, "EdDSA"):
        raise BadConfig(f"a key of {where} says alg {bounded_repr(chosen)} but its curve is for {default}")
    return AuthKey(jwk, "Ed25519" if chosen == "EdDSA" else str(chosen), kid)


def known_keys(members: Iterable[object], where: str) -> tuple[list[AuthKey], list[str]]:
    """The usable keys of a set, and why others are left out."""
    keys, skipped = [], []
    for member in members:
        try:
            key = key_of(member, where)
        except BadConfig as error:
            skipped.append(str(error))
            continue
        if isinstance(key.jwk, OctKey) or key.is_secret:
            skipped.append(f"a key of {where} is a secret, which a published set must not hold")
        else:
            keys.append(key)
    return keys, skipped


def new_key(kid: str) -> AuthKey:
    """A new Ed25519 key, private part included."""
    return AuthKey(OKPKey.generate_key("Ed25519", {"kid": kid}), "Ed25519", kid)


def write_key(key: AuthKey, path: str) -> None:
    """Write a private key as a JWK that only its owner may read; refuses to replace a file."""
    text = _jwk_text(key, private=True) + "\n"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise BadConfig(f"the key file {shown_path(path)} cannot be made ({error.strerror}); name a new one") from error
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def public_jwk(key: AuthKey) -> str:
    """The public part of a key as a JWK."""
    return _jwk_text(key, private=False)


def _jwk_text(key: AuthKey, *, private: bool) -> str:
    return json.dumps(key.jwk.as_dict(private=private) | {"alg": key.algorithm, "use": "sig"}, indent=1)
