"""docs/reference/command-line.md is true: its reference is what the commands themselves say."""

from tools.commands import PAGE, rewritten


def test_the_reference_is_what_the_commands_say() -> None:
    text = PAGE.read_text("utf-8")

    assert rewritten(text) == text, "run: .venv/bin/python -m tools.commands --write"
