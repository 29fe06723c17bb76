"""Write docs/openapi.json from the service's operations; refuses a change that breaks clients unless told to."""

import json
import sys
from pathlib import Path

from headrace.service.openapi import build_document, removals
from headrace.service.table import OPERATIONS

PAGE = Path(__file__).resolve().parents[1] / "docs/openapi.json"


def current() -> str:
    """The text of the document."""
    return json.dumps(build_document(OPERATIONS), indent=1, ensure_ascii=False) + "\n"


def main(words: list[str]) -> int:
    """Write the document with --write, and with --breaking also one that lacks something."""
    new = current()
    gone = removals(json.loads(PAGE.read_text("utf-8")), json.loads(new)) if PAGE.exists() else []
    for each in gone:
        print(f"gone or changed: {each}")
    if "--write" in words and (not gone or "--breaking" in words):
        PAGE.write_text(new, "utf-8")
        return 0
    return 1 if gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
