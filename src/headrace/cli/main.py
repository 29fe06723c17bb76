"""The entry point of the command line: `headrace COMMAND …`, with exit codes that mean something."""

import os
import sys
from collections.abc import Sequence

from headrace.cli.exit_codes import BAD_INPUT, BROKEN, INTERRUPTED, NO, NO_SERVER, OK, UNKNOWN
from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.redact import redact

TRACEBACK = "HEADRACE_TRACEBACK"
"""Set to anything, a fault of the program shows its traceback."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        return _seen_enough()
    except SystemExit as ended:
        # Both typer and rich make an exit of 1 out of a closed pipe.
        if isinstance(ended.__context__, BrokenPipeError):
            return _seen_enough()
        raise
    except KeyboardInterrupt:
        return INTERRUPTED
    except HeadraceError as error:
        _complain(given, error, str(error))
        return code_of(error)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        told = f"this is a fault of Headrace, not yours: {type(error).__name__}: {error}; {TRACEBACK}=1 shows where"
        _complain(given, error, told)
        return BROKEN
    return code


def _seen_enough() -> int:
    """Whoever read has closed the pipe (`| head`). Python flushes once more at the end: let it flush nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def code_of(error: HeadraceError) -> int:
    """The exit code that tells a program what happened."""
    match error:
        case StoreUnavailable():
            return NO_SERVER
        case OutcomeUnknown():
            return UNKNOWN
        case Refused(reason="process_died"):
            return NO
        case _:
            return BAD_INPUT


def _run(given: list[str]) -> int:
    try:
        import typer
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        raise BadConfig("the command line needs typer and rich; pip install 'headrace[cli]'") from missing
    from headrace.cli.program import built, spelled

    program = built(given)
    # A wrong option is bad input like any other, and is told the same way.
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]
    try:
        code = program(spelled(given), prog_name="headrace", standalone_mode=False)
    except typer.Abort:
        return INTERRUPTED
    except usage_error as wrong:
        return _misused(given, wrong)
    return code if isinstance(code, int) else OK


def _misused(given: list[str], wrong: Exception) -> int:
    context = getattr(wrong, "ctx", None)
    told: str = wrong.format_message()  # type: ignore[attr-defined]
    if type(wrong).__name__ == "NoArgsIsHelpError":  # nothing was asked for, and this is what may be
        print(told, file=sys.stderr)
        return BAD_INPUT
    from headrace.model.limits import USAGE_CHARS_MAX
    from headrace.model.validate import abridge

    command = context.command_path if context is not None else "headrace"
    _complain(given, wrong, f"{abridge(told.rstrip('.'), USAGE_CHARS_MAX)} (see '{command} --help')")
    return BAD_INPUT


def _complain(given: Sequence[str], error: Exception, message: str) -> None:
    told = redact(" ".join(message.split()))
    if "--json" in given:
        import msgspec

        reason = getattr(error, "reason", None)
        found = {"error": type(error).__name__, "message": told} | ({"reason": reason} if reason else {})
        print(msgspec.json.encode(found).decode(), file=sys.stderr)
    else:
        print(f"headrace: {told}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
