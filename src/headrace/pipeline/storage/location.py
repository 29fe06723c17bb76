"""Names a folder on a local disk or on object storage, and opens it in any process."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from headrace.model.errors import BadConfig, StoreUnavailable
from headrace.model.validate import bounded_repr

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

SCHEMES = ("s3", "gs", "abfs", "abfss")
_PATTERNS = re.compile(r"[*?\[\]{}\\]")
_WANTED = "give a path, or a URL that begins with s3://, gs:// or abfss://"
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


class Location(Struct, frozen=True, order=True):
    """A folder: an absolute path, or a URL without credentials. It travels as text and is opened where it is used."""

    url: str

    @staticmethod
    def parse(text: "str | Path | Location") -> "Location":
        """The folder that a path or URL names; `BadConfig` for one that cannot be used."""
        if isinstance(text, Location):
            return text
        if "://" in str(text):
            return Location(_checked_url(str(text)))
        path = Path(text).expanduser().absolute()
        _check_characters(str(path))
        return Location(str(path))

    def __str__(self) -> str:
        return self.url

    def child(self, name: str) -> "Location":
        """The folder or file of this name within."""
        return Location(f"{self.url.rstrip('/')}/{name}")

    @property
    def is_local(self) -> bool:
        """Whether it is on a disk, which the driver and all executors see under the same path."""
        return "://" not in self.url

    @property
    def path(self) -> Path:
        """The path of a local folder; `BadConfig` for object storage."""
        if not self.is_local:
            raise BadConfig(
                f"{self.url} is on object storage, and a folder on a local disk is needed here; give a path"
            )
        return Path(self.url)

    @property
    def spark_url(self) -> str:
        """What Spark itself opens: with its scheme, since the default file system of a cluster may be another."""
        return f"file://{self.url}" if self.is_local else self.url

    def filesystem(self) -> "tuple[FileSystem, str]":
        """pyarrow's file system, opened in this process, and the path of the folder in it."""
        from pyarrow import fs

        if self.is_local:
            return fs.LocalFileSystem(), self.url
        parts = urlsplit(self.url)
        inside = f"{parts.netloc}{parts.path}".rstrip("/")
        if parts.scheme == "s3":
            return fs.S3FileSystem(**_s3_options()), inside
        if parts.scheme == "gs":
            endpoint = os.environ.get("STORAGE_EMULATOR_HOST")
            return fs.GcsFileSystem(**({"endpoint_override": endpoint, "anonymous": True} if endpoint else {})), inside
        container, _, host = parts.netloc.partition("@")
        key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY") or os.environ.get("AZURE_STORAGE_KEY")
        return fs.AzureFileSystem(host.partition(".")[0], account_key=key), f"{container}{parts.path}".rstrip("/")

    def storage_options(self) -> dict[str, str]:
        """What deltalake needs besides the variables that it reads itself."""
        if not self.url.startswith("s3://"):
            return {}
        endpoint = _s3_endpoint()
        # Of two variables it knows one.
        return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") else {}


@contextmanager
def storage_errors(location: Location) -> Iterator[None]:
    """Within this block, what storage or deltalake cannot do is said in one sentence."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__ not in ("deltalake.exceptions", "_internal"):
            raise
        why = " ".join(str(error).split())
        raise StoreUnavailable(
            f"storage at {location} cannot be reached ({why}); check its address and rights"
        ) from error


def _checked_url(text: str) -> str:
    text = text.replace("s3a://", "s3://", 1)  # as Spark's own connector names it
    parts = urlsplit(text)
    if parts.scheme == "file" and not parts.netloc:
        return Location.parse(unquote(parts.path)).url
    if parts.scheme == "hdfs":
        raise BadConfig(
            f"{bounded_repr(text)} is on HDFS, which is not supported; {_WANTED}, or mount it and give its path"
        )
    if parts.scheme not in SCHEMES:
        raise BadConfig(f"scheme {bounded_repr(parts.scheme)} is not supported; {_WANTED}")
    if parts.scheme.startswith("abfs"):
        container, _, host = parts.netloc.partition("@")
        if not container or not host or ":" in container:
            raise BadConfig(
                "an abfss URL names container and account; write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
            )
    elif "@" in parts.netloc:
        raise BadConfig(
            f"a URL of {parts.scheme}:// must not hold credentials; set them in the environment, such as"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if not parts.netloc:
        raise BadConfig(f"{bounded_repr(text)} names no bucket; write {parts.scheme}://BUCKET/PATH")
    if parts.query or parts.fragment:
        raise BadConfig(f"a URL of {parts.scheme}:// takes no options; leave out what follows '?' or '#'")
    _check_characters(text)
    return text.rstrip("/")


def _check_characters(text: str) -> None:
    if _PATTERNS.search(text):
        raise BadConfig(f"{text!r} holds one of * ? [ ] {{ }} \\, which Spark takes for a pattern; name another folder")


def _s3_endpoint() -> str:
    return next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "")


def _s3_options() -> dict[str, Any]:
    """pyarrow finds keys and roles by itself; region and endpoint it would guess or look up."""
    options: dict[str, Any] = {}
    if endpoint := _s3_endpoint():
        options["endpoint_override"] = endpoint
    if region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        options["region"] = region
    return options
