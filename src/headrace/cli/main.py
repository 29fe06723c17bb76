"""The entry point of the command line."""

import argparse
import sys
from collections.abc import Sequence

from headrace.cli.demo import command as demo
from headrace.model.errors import HeadraceError

FAULT, INTERRUPTED = 2, 130
"""Exit codes beside a command's own: something was wrong with what was asked, or the user stopped it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(prog="headrace", description="Job queues with leases, tenants and a journal.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo.add_to(commands)
    given = parser.parse_args(arguments)
    try:
        code: int = given.run(given)
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return FAULT
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
