"""Keep examples/notebook/spark_tour.ipynb in step with examples/spark_tour.py: its cells are those of the program.

python -m tools.notebook            say whether it differs; ends with 1 if it does
python -m tools.notebook --write    write the notebook anew
"""

import ast
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "examples/spark_tour.py"
NOTEBOOK = ROOT / "examples/notebook/spark_tour.ipynb"
_CELL = re.compile(r"^# %% (.*)\n", re.MULTILINE)


def notebook(program: str) -> str:
    """The program as a notebook: each cell's comment is text above its code."""
    intro, *parts = _CELL.split(program)
    title = (ast.get_docstring(ast.parse(intro)) or "").partition("\n")[0]
    cells = [_cell(0, "markdown", f"# {title}")]
    for text, code in zip(parts[::2], parts[1::2], strict=True):
        cells += [_cell(len(cells), "markdown", text), _cell(len(cells) + 1, "code", _in_loop(code.strip("\n")))]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _in_loop(code: str) -> str:
    """The code as a kernel runs it, which has an event loop of its own."""
    return code.replace("app.run_worker(until_idle=True)", "await app.work(until_idle=True)")


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    output: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": source.splitlines(keepends=True),
        **output,
    }


def main(words: Sequence[str]) -> int:
    """Compare, or write."""
    wanted = notebook(PROGRAM.read_text("utf-8"))
    if "--write" in words:
        NOTEBOOK.write_text(wanted, "utf-8")
    elif NOTEBOOK.read_text("utf-8") != wanted:
        print("the notebook differs from the program; run: .venv/bin/python -m tools.notebook --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
