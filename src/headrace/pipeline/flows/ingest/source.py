"""Finds out what a source is, and in which format it is written, before Spark is started."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.validate import check_path, cut, shown_path

FORMATS = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
    ".avro": "avro",
    ".txt": "text",
    ".log": "text",
    ".xml": "xml",
}
"""The format of files by how their names end."""
PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
"""What may stand behind that: Spark unpacks these by themselves."""
FILES_LOOKED_AT_MAX = 1_000
"""Files of a folder whose names are looked at: those of a folder are of one kind, and a folder may hold millions."""
NO_PATH = "-"
"""The name of a source that has no path: its format and options say all, as of jdbc and kafka."""
_PATTERN = frozenset("*?[]{}")


class Source(Struct, frozen=True):
    """What is read: files, or a table that Spark's catalog knows."""

    name: str
    """A path, a pattern of paths, the name of a table, or `-`."""
    format: str | None
    """None for a table."""
    options: dict[str, str] = {}

    @property
    def path(self) -> str | None:
        """None for what is read by its options alone."""
        return None if self.name == NO_PATH else self.name


def find_source(
    name: str,
    format: str | None = None,  # noqa: A002  (as Spark calls it)
    options: Mapping[str, str] | None = None,
    *,
    local: bool = True,
) -> Source:
    """What `name` stands for: a path when it looks like one, lies here or has a `format`, else a table of the catalog;
    `-` stands for no path at all.

    With `local`, Spark runs on this machine, and a path that is not here is refused; the options of the person win
    over those that the name suggests.
    """
    given = dict(options or {})
    if not name:
        raise BadConfig("the source has no name; give a path, a pattern of paths, or a table that Spark knows")
    if name == NO_PATH:
        if format is None or format in {*FORMATS.values(), "delta"}:
            raise BadConfig("the source is -, which stands for no path; give a --format without one, such as jdbc")
        return Source(name, format, given)
    is_url = "://" in name or name.startswith("file:")
    if not is_url:
        check_path("the source", name)
    here = None if is_url else Path(os.path.expanduser(name))  # noqa: PTH111 - pathlib raises for an unknown user
    is_here = here is not None and here.exists()
    looks_like_path = is_url or "/" in name or bool(_PATTERN & set(name)) or is_here or _suffix(name) in FORMATS
    if format is None and not looks_like_path:
        return Source(name, None, given)
    if here is not None and local and not is_here and not _PATTERN & set(name):
        without = "" if format is None else f"; if {cut(format)} has no path, give - and its options (--option)"
        raise BadConfig(
            f"there is no file or folder {shown_path(name)!r}; check the path, or give a table that Spark"
            f" knows{without}"
        )
    # Java may stand in another folder than we do.
    path = name if here is None else str(here.absolute() if local else here)
    found = format or _guessed(here, name)
    return Source(path, found, _suggested(found, _finished_job(here, name)) | given)


def _guessed(here: Path | None, name: str) -> str:
    if here is not None and (here / "_delta_log").is_dir():
        return "delta"
    finished_job = _finished_job(here, name)
    if finished_job not in FORMATS:
        known = ", ".join(sorted(set(FORMATS.values())))
        raise BadConfig(f"nobody can tell the format of {cut(name)!r} by its name; give --format, such as {known}")
    return FORMATS[finished_job]


def _finished_job(here: Path | None, name: str) -> str:
    """How the files end: of a folder, most of what it holds."""
    if here is None or not here.is_dir():
        return _suffix(name)
    finished_jobs = Counter(
        finished_job for file in islice(_files(here), FILES_LOOKED_AT_MAX) if (finished_job := _suffix(file))
    )
    return finished_jobs.most_common(1)[0][0] if finished_jobs else _suffix(name)


def _files(folder: Path) -> Iterator[str]:
    """Names of files that Spark would read: not what begins with a dot or an underscore."""
    for _, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith((".", "_"))]
        yield from (file for file in files if not file.startswith((".", "_")))


def _suffix(name: str) -> str:
    path = Path(name.rstrip("/"))
    if path.suffix.lower() in PACKED:
        path = path.with_suffix("")
    return path.suffix.lower()


def _suggested(found: str, finished_job: str) -> dict[str, str]:
    """Options that people mean by such a file."""
    if found != "csv":
        return {}
    return {"header": "true", "inferSchema": "true"} | ({"sep": "\t"} if finished_job == ".tsv" else {})
