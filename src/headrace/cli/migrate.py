"""`headrace migrate`: brings the tables or functions of a store to this version, or lists the pending steps."""

import asyncio
from typing import Annotated

import typer

from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import Json, Url
from headrace.cli.output import Output
from headrace.cli.store_access import resolve_url
from headrace.model.integrity import Schema

Check = Annotated[bool, typer.Option("--check", help="Only list the pending steps; exit with 1 if there are any.")]


def command(url: Url = None, check: Check = False, json: Json = False) -> int:
    """Bring the store's tables or functions to this version.

    A missing store is created. Opening a store does the same automatically: use this command to do it at a time of your
    choice, or as another user. A store of a newer Headrace is refused.

    Example: headrace migrate --check
    """
    from headrace.model.redact import redact_url
    from headrace.stores.open import migrate, schema_of

    output, found = Output(json=json), resolve_url(url)
    if check:
        schema = asyncio.run(schema_of(found))
        output.document({"found": schema.found, "known": schema.known, "pending": schema.pending} | _library(schema))
        output.say(f"{redact_url(found)}: {_schema_text(schema)}")
        for step in schema.pending:
            output.say(f"  {step}")
        return NO if schema.pending else OK
    migrated = asyncio.run(migrate(found))
    output.document({"before": migrated.before, "after": migrated.after, "steps": migrated.before.pending})
    done = len(migrated.before.pending)
    output.say(f"{redact_url(found)}: {_schema_text(migrated.after)}" + (f"; {_steps(done)} taken" if done else ""))
    return OK


def _schema_text(schema: Schema) -> str:
    if schema.found is None:
        return f"no store yet; {_steps(len(schema.pending))} to take"
    if schema.pending:
        return f"at {schema.found} of {schema.known}; {_steps(len(schema.pending))} to take"
    return f"up to date ({schema.library or f'schema {schema.found}'})"


def _steps(number: int) -> str:
    return "1 step" if number == 1 else f"{number} steps"


def _library(schema: Schema) -> dict[str, str]:
    return {} if schema.library is None else {"library": schema.library}
