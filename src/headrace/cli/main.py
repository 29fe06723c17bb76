"""The entry point of the command line: `headrace COMMAND …`, with exit codes that mean something."""

import os
import sys
from collections.abc import Sequence

from headrace.cli.exit_codes import BAD_INPUT, BROKEN, INTERRUPTED, OK, code_of
from headrace.model.errors import BadConfig, HeadraceError
from headrace.model.redact import redact

TRACEBACK = "HEADRACE_TRACEBACK"
"""With this variable set, a bug in Headrace shows its traceback."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        return _drop_output()
    except SystemExit as ended:
        # Both typer and rich make an exit of 1 out of a closed pipe.
        if isinstance(ended.__context__, BrokenPipeError):
            return _drop_output()
        raise
    except KeyboardInterrupt:
        return INTERRUPTED
    except HeadraceError as error:
        _print_error(words, error, str(error))
        return code_of(error)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        message = f"this is a bug in Headrace: {type(error).__name__}: {error}; {TRACEBACK}=1 shows the traceback"
        _print_error(words, error, message)
        return BROKEN
    return code


def _drop_output() -> int:
    """The reader has closed the pipe (`| head`). Python flushes once more at the end: let it flush nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _run(words: list[str]) -> int:
    try:
        import typer
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        raise BadConfig("the command line needs typer and rich; pip install 'headrace[cli]'") from missing
    from headrace.cli.program import build_program, expand_words

    program = build_program(words)
    # typer raises its errors for wrong options as click's UsageError, which it does not export.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    try:
        code = program(expand_words(words), prog_name="headrace", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except usage_error as error:
        return _print_usage_error(words, error)
    return code if isinstance(code, int) else OK


def _print_usage_error(words: list[str], error: Exception) -> int:
    context = getattr(error, "ctx", None)
    message: str = error.format_message()  # type: ignore[attr-defined]
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help
        print(message, file=sys.stderr)
        return BAD_INPUT
    from headrace.model.limits import USAGE_CHARS_MAX
    from headrace.model.validate import abridge

    command = context.command_path if context is not None else "headrace"
    _print_error(words, error, f"{abridge(message.rstrip('.'), USAGE_CHARS_MAX)} (see '{command} --help')")
    return BAD_INPUT


def _print_error(words: Sequence[str], error: Exception, message: str) -> None:
    line = redact(" ".join(message.split()))
    if "--json" in words:
        import msgspec

        reason = getattr(error, "reason", None)
        document = {"error": type(error).__name__, "message": line} | ({"reason": reason} if reason else {})
        print(msgspec.json.encode(document).decode(), file=sys.stderr)
    else:
        print(f"headrace: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
