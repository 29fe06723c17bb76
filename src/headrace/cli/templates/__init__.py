"""The files of a first app, which `headrace init` writes."""

from importlib.resources import files

NAMES = ("app.py", "test_app.py", "pyproject.toml")


def template_text(name: str) -> str:
    """The content of the file of that name."""
    # With another suffix: tools would take the files for modules and tests of this package.
    return files(__name__).joinpath(f"{name}.txt").read_text(encoding="utf-8")
