"""The files of a first app, as `headrace init` writes them."""

from importlib.resources import files

NAMES = ("app.py", "test_app.py", "pyproject.toml")


def text_of(name: str) -> str:
    """What the file of that name holds."""
    # With another ending, or tools would take the files for modules and tests of this package.
    return files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
