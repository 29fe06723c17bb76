"""Tells which version of a package runs, also where it is not installed but imported from a source tree."""


def version_of(package: str) -> str:
    """The version of an installed package; words that say so where none is installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed: a source tree)"
