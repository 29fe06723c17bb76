"""An app as a user writes it, for the tests of the kit: it logs to `LOG`, and its URL leads nowhere."""

import threading

from headrace import App, Fail, Release, Retry, current

NOWHERE = "redis://127.0.0.1:1/0"
"""Nothing answers there: a call that does not use the kit's store fails."""
app = App(NOWHERE, tenant="acme")
other = App(NOWHERE)
LOG: list[str] = []
ANSWERS: list[str] = []
"""The answers of the CRM to the next calls: `ok` when empty."""


@app.job
async def welcome(user_id: int, lang: str = "en") -> str:
    """A coroutine on the default queue, which sends another job."""
    await mail.enqueue(to=f"u{user_id}", tags=["welcome", lang])
    return f"hello {user_id}"


@app.job(queue="mail", max_attempts=3, backoff="10s", process=True)
def mail(to: str, tags: list[str] | None = None) -> None:
    """A plain function, which asks for a process of its own, and sends without an event loop."""
    LOG.append(f"{threading.current_thread() is threading.main_thread()} mail to {to}")
    audit.blocking.enqueue(what=to)


@app.job(queue="audit", weight=4)
async def audit(what: str) -> None:
    """A coroutine that is heavy."""
    LOG.append(f"audit {what}")


@app.job(queue="crm", max_attempts=3, backoff="10s", timeout="1h")
async def sync(customer: int, mood: str = "") -> int:
    """Fails by `ANSWERS`."""
    LOG.append(f"sync {customer}, attempt {current().attempt}")
    match ANSWERS.pop(0) if ANSWERS else "ok":
        case "busy":
            raise TimeoutError(f"the CRM is busy with {customer}")
        case "later":
            raise Retry("not yet", delay="1m")
        case "gone":
            raise Fail("no such customer")
        case "mine":
            raise Release(delay="5s")
    return customer


@app.job(queue="loops")
async def tick(number: int = 0) -> None:
    """Sends itself."""
    await tick.options(delay="1m").enqueue(number=number + 1)


@app.job(queue="loops")
async def spin() -> None:
    """Sends itself, at once."""
    await spin.enqueue()


@app.fail_handler(queue="crm")
async def bury(id: str, payload: object, error: dict[str, object]) -> None:
    """Handles deaths."""
    LOG.append(f"buried {payload}: {error['message']}")


@other.job
async def welcome_there(name: str) -> None:
    """A job of another app."""
    LOG.append(f"there {name}")
