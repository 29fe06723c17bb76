"""A web program that sends jobs: one endpoint takes an order, another shows what became of it.

uvicorn --app-dir examples fastapi_producer:web      # takes orders
python examples/fastapi_producer.py                  # works on them

Both find the store by HEADRACE_URL, else in the file headrace.db.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

from headrace import App, JobFailed

app = App(queue="thumbnails")


@app.job(max_attempts=3, timeout="30s", result_ttl="1d")
async def thumbnail(picture: str, width: int = 100) -> str:
    """Done by the worker program, never by the web program."""
    return f"{picture} in {width} pixels"


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Connections are opened by the first order, and closed with the program."""
    async with app:
        yield


web = FastAPI(lifespan=lifespan)


@web.post("/thumbnails", status_code=202)
async def order(picture: str, width: int = 100) -> dict[str, str]:
    """Answers as soon as the job is safe; asking again for the same picture changes nothing."""
    handle = await thumbnail.options(idempotency_key=f"{picture} {width}").enqueue(picture, width)
    return {"id": handle.id, "status": handle.status}


@web.get("/thumbnails/{id}")
async def show(id: str, wait: float = 0) -> dict[str, str | None]:
    """The state of a job, and its result; `wait` seconds for it if need be."""
    handle = await thumbnail.handle(id)
    if await handle.find() is None:
        raise HTTPException(404, f"no thumbnail {id}")
    try:
        return {"state": "done", "result": await handle.result(timeout=wait)}
    except TimeoutError:
        return {"state": "under way", "result": None}
    except JobFailed as failed:
        return {"state": "failed", "result": failed.error.message}


if __name__ == "__main__":
    app.run_worker()
