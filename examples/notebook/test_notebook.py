"""The notebook of this folder runs from its first cell to its last, in a kernel, and shows what the tour shows."""

from pathlib import Path

import nbclient
import nbformat

FOLDER = Path(__file__).parent
SHOWN = """\
written:  of 6 rows 6 created
again:    of 6 rows 6 duplicate
drained:  of 6 rows 6 duplicate
widths:   [200, 400, 600, 1000, 1200]
replayed: of 1 rows 1 replayed
batches:  [10, 10, 1] lag 0
the same: True
published: of 2 rows 2 written
again:     of 2 rows 2 unchanged
"""


def test_every_cell_runs_and_shows_what_the_program_shows(tmp_path: Path) -> None:
    tour = nbformat.read(FOLDER / "spark_tour.ipynb", as_version=4)

    nbclient.NotebookClient(tour, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()

    outputs = [output for cell in tour.cells for output in cell.get("outputs", [])]
    text = "".join(output.text for output in outputs if output.get("name") == "stdout")
    assert "".join(line for line in text.splitlines(keepends=True) if line[0] not in "+|\n") == SHOWN
    assert "|failed|no codec for p4.raw|p4.raw|" in text
