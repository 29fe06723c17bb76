"""The app whose jobs do nothing, as the executors of a fleet import it."""

from benchmarks.load import QUEUE
from headrace import App

app = App(tenant=QUEUE.tenant, queue=QUEUE.name)


@app.job(kind="send")
async def nothing(user_id: int, text: str) -> None:
    """Checked before it runs, as arguments are."""
