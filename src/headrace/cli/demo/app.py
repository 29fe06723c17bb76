"""The demo's app: quick, slow, flaky, failing, coalesced and scheduled jobs."""

import asyncio
import random
from typing import Any

from headrace.app.app import App
from headrace.app.decorators import DeathInfo
from headrace.model.names import Queue
from headrace.worker.context import current
from headrace.worker.exceptions import Fail

TENANTS = ("acme", "birch")
MAIL = {tenant: Queue("mail", tenant) for tenant in TENANTS}
MEDIA = {tenant: Queue("media", tenant, 2) for tenant in TENANTS}
WEB = Queue("web", "acme")
KINDS = {
    "welcome-mail": "quick",
    "sync-crm": "flaky, retried with growing pauses",
    "charge-card": "sometimes declined, a dead letter",
    "daily-report": "scheduled, some for tomorrow",
    "flash-sale": "expires if it is late",
    "resize-image": "slow",
    "warm-cache": "coalesced: one waiting job per page",
    "crawl-site": "long, its worker is killed",
}

app = App()


class CardDeclined(Exception):
    """Raised when the bank declines a card."""


def delivery_rng() -> random.Random:
    """Random numbers of one delivery: another delivery has others, a repeated one the same."""
    context = current()
    return random.Random(f"{context.job.id}/{context.fence}")


async def busy(least_ms: int, most_ms: int) -> None:
    """Simulate work."""
    await asyncio.sleep(delivery_rng().randint(least_ms, most_ms) / 1_000)


@app.job(kind="welcome-mail")
async def welcome_mail(user: int) -> str:
    """Quick."""
    await busy(5, 30)
    return f"welcomed user {user}"


@app.job(kind="sync-crm", max_attempts=3, backoff="200ms")
async def sync_crm(customer: int) -> None:
    """Fails now and then, and is retried."""
    await busy(20, 120)
    rng = delivery_rng()
    if customer % 50 == 7:
        raise ValueError(f"customer {customer} has no e-mail address")
    if rng.random() < 0.3:
        host, ms = f"10.0.3.{rng.randint(2, 9)}:8443", rng.randint(1_000, 1_999)
        raise TimeoutError(f"the CRM at {host} did not answer within {ms} ms, request {rng.getrandbits(64):016x}")


@app.job(kind="charge-card", max_attempts=3, backoff="200ms")
async def charge_card(order: int) -> str:
    """Fails for good now and then: a retry would not help."""
    await busy(40, 160)
    # Some cards are always declined, so that the demo has dead letters at any number of jobs.
    if order % 20 == 17 or delivery_rng().random() < 0.15:
        raise Fail(f"the bank declined the card of order {order}") from CardDeclined()
    return "paid"


@app.job(kind="daily-report")
async def daily_report(number: int) -> str:
    """Sent for a later time."""
    await busy(30, 90)
    return f"report {number}"


@app.job(kind="flash-sale", priority=2)
async def flash_sale(number: int) -> str:
    """Low priority; must start before it expires."""
    await busy(5, 20)
    return f"sale {number}"


@app.job(kind="resize-image")
async def resize_image(number: int) -> dict[str, int]:
    """Slow."""
    await busy(150, 900)
    return {"width": 640, "image": number}


@app.job(kind="warm-cache")
async def warm_cache(page: int) -> str:
    """Sent all the time under the same ids: a waiting job is updated instead."""
    await busy(150, 400)
    return f"page {page} is warm"


@app.job(kind="crawl-site")
async def crawl_site(site: int) -> int:
    """Runs long enough to lose its worker."""
    await busy(400, 900)
    return site * 17


@app.job(kind="geocode", max_attempts=5, backoff="100ms")
async def geocode(address: str) -> dict[str, float]:
    """The location of an address, from a service that is sometimes busy and does not know every street."""
    await busy(2, 15)
    if "Nowhere" in address:
        raise Fail(f"there is no street such as {address!r}") from LookupError()
    if delivery_rng().random() < 0.05:
        raise TimeoutError("the map service did not answer within 800 ms")
    place = random.Random(address)
    return {"lat": round(place.uniform(47, 55), 4), "lon": round(place.uniform(6, 15), 4)}


@app.fail_handler(queue=MAIL["acme"])
async def on_death(id: str, payload: Any, error: DeathInfo) -> str:
    """Handles each dead mail job of acme; the store creates this job in the step in which the other dies."""
    await busy(5, 20)
    return f"{id} with {payload} died of {error.cls}"
