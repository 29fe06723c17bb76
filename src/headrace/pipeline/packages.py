"""Says what to install where a package is missing without which there is no Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from headrace.model.errors import BadConfig

PACKAGES = ("pyspark", "pyarrow", "pandas", "py4j")
MISSING = "the pipeline needs Spark; pip install 'headrace[spark]'"


@contextmanager
def needing_spark() -> Iterator[None]:
    """Within this block, where modules are imported, a package that is missing is refused with what to do."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise BadConfig(MISSING) from missing


def check_packages() -> None:
    """Refuse at once, without importing any of them, what `needing_spark` would refuse later."""
    if any(find_spec(name) is None for name in PACKAGES):
        raise BadConfig(MISSING)
