"""Finds out what a source is and which format it has, before Spark is started."""

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
"""Formats by file extension."""
COMPRESSED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
"""Extensions of compressed files, which Spark unpacks itself."""
FILES_SAMPLED_MAX = 1_000
"""File names that are read of a folder: its files have one format, and there may be millions."""
NO_PATH = "-"
"""The name of a source without a path, such as jdbc and kafka, which have a format and options only."""
_GLOB = frozenset("*?[]{}")


class Source(Struct, frozen=True):
    """Files, or a table of Spark's catalog."""

    name: str
    """A path, a pattern of paths, the name of a table, or `-`."""
    format: str | None
    """None for a table."""
    options: dict[str, str] = {}

    @property
    def path(self) -> str | None:
        """None for a source without a path."""
        return None if self.name == NO_PATH else self.name


def find_source(
    name: str,
    format: str | None = None,  # noqa: A002  (as Spark calls it)
    options: Mapping[str, str] | None = None,
    *,
    local: bool = True,
) -> Source:
    """The source of a name: a path if it looks like one, exists here or has a `format`, else a table of the catalog.

    `-` is a source without a path. With `local`, Spark runs on this machine, and a path that does not exist here is
    refused. The given options win over those of the file extension.
    """
    given = dict(options or {})
    if not name:
        raise BadConfig("the source has no name; give a path, a pattern of paths, or a table that Spark knows")
    if name == NO_PATH:
        if format is None or format in {*FORMATS.values(), "delta"}:
            raise BadConfig("the source is -, which has no path; give a --format without one, such as jdbc")
        return Source(name, format, given)
    is_url = "://" in name or name.startswith("file:")
    if not is_url:
        check_path("the source", name)
    local_path = None if is_url else Path(os.path.expanduser(name))  # noqa: PTH111 - pathlib raises for an unknown user
    exists = local_path is not None and local_path.exists()
    looks_like_path = is_url or "/" in name or bool(_GLOB & set(name)) or exists or _extension(name) in FORMATS
    if format is None and not looks_like_path:
        return Source(name, None, given)
    if local_path is not None and local and not exists and not _GLOB & set(name):
        hint = "" if format is None else f"; if {cut(format)} has no path, give - and its options (--option)"
        raise BadConfig(
            f"there is no file or folder {shown_path(name)!r}; check the path, or give a table that Spark knows{hint}"
        )
    # Java may run in another folder.
    path = name if local_path is None else str(local_path.absolute() if local else local_path)
    extension = _main_extension(local_path, name)
    source_format = format or _format(local_path, name, extension)
    return Source(path, source_format, _default_options(source_format, extension) | given)


def _format(path: Path | None, name: str, extension: str) -> str:
    if path is not None and (path / "_delta_log").is_dir():
        return "delta"
    if extension not in FORMATS:
        known = ", ".join(sorted(set(FORMATS.values())))
        raise BadConfig(f"the name {cut(name)!r} does not show its format; give --format, such as {known}")
    return FORMATS[extension]


def _main_extension(path: Path | None, name: str) -> str:
    """The extension of a file, or of most files of a folder."""
    if path is None or not path.is_dir():
        return _extension(name)
    count = Counter(extension for file in islice(_files(path), FILES_SAMPLED_MAX) if (extension := _extension(file)))
    return count.most_common(1)[0][0] if count else _extension(name)


def _files(folder: Path) -> Iterator[str]:
    """Names of files that Spark would read: none that begins with a dot or an underscore."""
    for _, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith((".", "_"))]
        yield from (file for file in files if not file.startswith((".", "_")))


def _extension(name: str) -> str:
    path = Path(name.rstrip("/"))
    if path.suffix.lower() in COMPRESSED:
        path = path.with_suffix("")
    return path.suffix.lower()


def _default_options(source_format: str, extension: str) -> dict[str, str]:
    if source_format != "csv":
        return {}
    return {"header": "true", "inferSchema": "true"} | ({"sep": "\t"} if extension == ".tsv" else {})
