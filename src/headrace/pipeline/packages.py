"""Refuses a missing or too old Spark with the command to install it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from headrace.model.errors import BadConfig

PACKAGES = ("pyspark", "pyarrow", "pandas", "py4j")
SPARK_MIN = (4, 1)
"""4.0 pushes no filters and has no Arrow writer for streams."""
MISSING = "the pipeline needs Spark; pip install 'headrace[spark]'"


@contextmanager
def needing_spark() -> Iterator[None]:
    """Within this block of imports, a missing or too old package raises `BadConfig` with what to install."""
    try:
        yield
    except ImportError as error:
        # An old Spark lacks names, which fails the import, too.
        found = getattr(sys.modules.get("pyspark"), "__version__", None)
        if found is not None:
            check_version(found)
        if (error.name or "").partition(".")[0] in PACKAGES:
            raise BadConfig(MISSING) from error
        raise


def check_packages() -> None:
    """Refuse missing packages without importing any of them."""
    if any(find_spec(name) is None for name in PACKAGES):
        raise BadConfig(MISSING)


def check_version(found: str) -> None:
    """Refuse a version of Spark that is too old for the pipeline."""
    if parse_version(found) < SPARK_MIN:
        raise BadConfig(
            f"the pipeline needs Spark {'.'.join(map(str, SPARK_MIN))} or newer, and this is {found}; pip install -U"
            " 'headrace[spark]'"
        )


def parse_version(text: str) -> tuple[int, int]:
    """The major and the minor number of a version of Spark."""
    major, minor, *_ = text.split(".")
    return int(major), int(minor)


def spark_version() -> str:
    """The installed version of Spark, without importing it; a newer one if pip does not know it."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return "5.0"
