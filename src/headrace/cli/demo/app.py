"""The demo's app: jobs that are quick, slow, flaky, refused, crawling, one of a kind, and for later."""

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
    "sync-crm": "flaky, tried three times with growing pauses",
    "charge-card": "sometimes refused for good, a dead letter",
    "daily-report": "scheduled, some for tomorrow",
    "flash-sale": "worthless when late: it expires",
    "resize-image": "slow",
    "warm-cache": "one per page, whoever asks how often",
    "crawl-site": "its worker is killed in the middle",
}

app = App()


class CardDeclined(Exception):
    """What the bank says."""


def luck() -> random.Random:
    """Chance that differs from delivery to delivery, and is the same whenever that delivery is made."""
    here = current()
    return random.Random(f"{here.job.id}/{here.fence}")


async def busy(least_ms: int, most_ms: int) -> None:
    """Stands for the work."""
    await asyncio.sleep(luck().randint(least_ms, most_ms) / 1_000)


@app.job(kind="welcome-mail")
async def welcome_mail(user: int) -> str:
    """Quick."""
    await busy(5, 30)
    return f"welcomed user {user}"


@app.job(kind="sync-crm", max_attempts=3, backoff="200ms")
async def sync_crm(customer: int) -> None:
    """Fails now and then, and is tried again."""
    await busy(20, 120)
    chance = luck()
    if customer % 50 == 7:
        raise ValueError(f"customer {customer} has no e-mail address")
    if chance.random() < 0.3:
        host, ms = f"10.0.3.{chance.randint(2, 9)}:8443", chance.randint(1_000, 1_999)
        raise TimeoutError(f"the CRM at {host} did not answer within {ms} ms, request {chance.getrandbits(64):016x}")


@app.job(kind="charge-card", max_attempts=3, backoff="200ms")
async def charge_card(order: int) -> str:
    """Refused for good now and then: trying again would not help."""
    await busy(40, 160)
    # Some cards are never good, however the story goes: it has declined ones to show at any number of jobs.
    if order % 20 == 17 or luck().random() < 0.15:
        raise Fail(f"the bank declined the card of order {order}") from CardDeclined()
    return "paid"


@app.job(kind="daily-report")
async def daily_report(number: int) -> str:
    """Sent for a later time."""
    await busy(30, 90)
    return f"report {number}"


@app.job(kind="flash-sale", priority=2)
async def flash_sale(number: int) -> str:
    """Must start before it expires, and is nobody's first concern."""
    await busy(5, 20)
    return f"sale {number}"


@app.job(kind="resize-image")
async def resize_image(number: int) -> dict[str, int]:
    """Slow."""
    await busy(150, 900)
    return {"width": 640, "image": number}


@app.job(kind="warm-cache")
async def warm_cache(page: int) -> str:
    """Asked for all the time, done once for all who asked while it waited."""
    await busy(150, 400)
    return f"page {page} is warm"


@app.job(kind="crawl-site")
async def crawl_site(site: int) -> int:
    """Long enough to lose a worker in it."""
    await busy(400, 900)
    return site * 17


@app.job(kind="geocode", max_attempts=5, backoff="100ms")
async def geocode(address: str) -> dict[str, float]:
    """Where an address is, by a service that is sometimes busy and does not know every street."""
    await busy(2, 15)
    if "Nowhere" in address:
        raise Fail(f"there is no street such as {address!r}") from LookupError()
    if luck().random() < 0.05:
        raise TimeoutError("the map service did not answer within 800 ms")
    place = random.Random(address)
    return {"lat": round(place.uniform(47, 55), 4), "lon": round(place.uniform(6, 15), 4)}


@app.fail_handler(queue=MAIL["acme"])
async def on_death(id: str, payload: Any, error: DeathInfo) -> str:
    """Told of each mail job of acme that died: the telling is a job, made in the step in which the other one died."""
    await busy(5, 20)
    return f"{id} with {payload} died of {error.cls}"
