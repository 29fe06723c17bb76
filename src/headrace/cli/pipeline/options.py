"""Options that the commands of the pipeline share."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import Struct

from headrace.cli.options import ALL, Url
from headrace.cli.parse import pairs
from headrace.cli.store_access import resolve_url
from headrace.model.errors import BadConfig
from headrace.model.validate import bounded_repr, check_path
from headrace.stores.open import with_whole_path

if TYPE_CHECKING:
    from headrace.pipeline.storage.location import Location

FOLDER = "headrace-data"
MASTER = "local[*]"

Dir = Annotated[
    str,
    typer.Option(
        "--dir",
        metavar="FOLDER",
        envvar="HEADRACE_PIPELINE_DIR",
        show_envvar=False,
        help="Folder of history, tables and report, or s3://… [env: HEADRACE_PIPELINE_DIR]",
    ),
]
Tenants = Annotated[
    str,
    typer.Option(
        "--tenant",
        envvar="HEADRACE_TENANT",
        show_envvar=False,
        help="Tenant to use; * means all.",
    ),
]
Queues = Annotated[
    str,
    typer.Option(
        "--queue",
        "-q",
        metavar="NAMES",
        envvar="HEADRACE_QUEUE",
        show_envvar=False,
        help="Queues to use, separated by commas; * means all.",
    ),
]
From = Annotated[
    Literal["history", "journal"] | None,
    typer.Option(
        "--origin",
        show_default=False,
        help="Source of the events; the history if there is one, else the store's journal.",
    ),
]
Master = Annotated[
    str, typer.Option("--master", help="Spark's master: local[*], spark://…, or sc://… for Spark Connect.")
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="Setting of Spark, such as spark.driver.memory=4g; repeatable."),
]
Window = Annotated[str, typer.Option("--window", help="Length of a window: 10s, 1m, 1h.")]
Rows = Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows to show at most.")]
Samples = Annotated[int, typer.Option("--samples", min=1, max=100, help="Jobs to name for each error.")]
Days = Annotated[int, typer.Option("--days", min=1, help="Last days to sum up here; the tables have all.")]
Rebuild = Annotated[bool, typer.Option("--rebuild", help="Build the tables from all events, not from new ones only.")]
Once = Annotated[bool, typer.Option("--once", help="Process what is available now, then exit (AvailableNow).")]
Every = Annotated[str, typer.Option("--every", help="Interval between batches: 500ms, 10s, 1m.")]
EventsMax = Annotated[
    int | None,
    typer.Option(
        "--events-max",
        min=1,
        show_default=False,
        help="Events in a batch at most: 200,000, of statistics 100,000. Spark 4.1 has no such limit.",
    ),
]
Lossy = Annotated[
    bool, typer.Option("--allow-loss", help="Continue where the store has dropped or lost events, and count them.")
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        min=0,
        max=65_535,
        show_default=False,
        help="Port of /metrics for Prometheus; 0 takes any free port.",
    ),
]
MetricsHost = Annotated[
    str, typer.Option("--metrics-host", help="Address of /metrics; 0.0.0.0 means all of this machine.")
]


class SparkEngine(Struct, frozen=True):
    """The Spark that a command runs on."""

    master: str
    conf: dict[str, str]


class StoreOptions(Struct, frozen=True):
    """The options for the store, the folder and the queues of a command."""

    url: Url = None
    dir: Dir = FOLDER
    tenant: Tenants = ALL
    queue: Queues = ALL


class EventOptions(StoreOptions, frozen=True):
    """The options for the events of a command."""

    origin: From = None


class SparkOptions(Struct, frozen=True):
    """The options for the Spark of a command."""

    master: Master = MASTER
    conf: Conf = None

    @property
    def engine(self) -> SparkEngine:
        """The Spark of these options; refuses a setting that is not NAME=VALUE."""
        return SparkEngine(self.master, pairs("--conf", self.conf or []))


def data_folder(text: str) -> "Path | Location":
    """The folder of `--dir`, which may be on object storage."""
    if "://" not in text:
        return folder_of(text)
    from headrace.pipeline.storage.location import Location

    return Location.parse(text)


def folder_of(text: str) -> Path:
    """The folder of `--dir`, absolute; refuses a URL, and characters that Spark would take for a pattern."""
    check_path("the folder", text)
    if "://" in text:
        raise BadConfig(
            f"--dir must be a folder, and {bounded_repr(text)} is a URL; mount it where the driver and all executors"
            " see it under the same path, and give that path"
        )
    if any(each in text for each in "*?[]{}\\"):
        raise BadConfig(
            f"--dir {bounded_repr(text)} holds one of * ? [ ] {{ }} \\, which Spark takes for a pattern; rename it"
        )
    return Path(os.path.expanduser(text)).absolute()  # noqa: PTH111 - pathlib raises for an unknown user


def spark_url(url: str | None) -> str:
    """The URL of the store for Spark's processes, a file with its whole path: they may run in another folder."""
    return with_whole_path(resolve_url(url))
