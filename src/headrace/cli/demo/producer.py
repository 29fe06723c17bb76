"""Sends the demo's jobs: a steady stream of several kinds from two tenants, with a rush in the middle."""

import asyncio
import itertools
import random
from collections.abc import Iterator

from headrace.cli.demo.app import (
    MAIL,
    MEDIA,
    TENANTS,
    WEB,
    app,
    charge_card,
    crawl_site,
    daily_report,
    flash_sale,
    resize_image,
    sync_crm,
    warm_cache,
    welcome_mail,
)
from headrace.model.clock import SystemClock, monotonic_ms
from headrace.model.job import Job

SEND_MS = 11_000
"""Time for which jobs are sent."""
TICK_MS = 200
RUSH_AT, RUSH_SIZE = 0.45, 12
"""The time of the rush, as a share of the whole time, and its size in ticks."""
CRAWLS = 18
MIX = {
    welcome_mail: 50,
    sync_crm: 12,
    charge_card: 8,
    daily_report: 3,
    flash_sale: 5,
    resize_image: 14,
    warm_cache: 8,
}
"""Percentages."""


class DemoSender:
    """Sends `jobs` jobs or a few more, and counts them."""

    def __init__(self, jobs: int, seed: int = 7) -> None:
        self.sent = 0
        self.tomorrow: list[Job] = []
        """Jobs that are due tomorrow, after the demo."""
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)
        self._ticks = SEND_MS // TICK_MS
        self._jobs = jobs

    async def run(self) -> None:
        """Send tick by tick; then cancel some of tomorrow's jobs, and replay declined cards."""
        client = await app.client()
        crawls = [crawl_site.options(queue=WEB, id=f"site/{site}").job(site=site) for site in range(1, CRAWLS + 1)]
        await client.enqueue_many(crawls[: self._jobs])
        self.sent = min(CRAWLS, self._jobs)
        begun_ms = monotonic_ms()
        for tick, share in enumerate(self._shares()):
            await asyncio.sleep(max(begun_ms + tick * TICK_MS - monotonic_ms(), 0) / 1_000)
            jobs = list(itertools.islice(self._stream(), share))
            await client.enqueue_many(jobs)
            self.sent += len(jobs)
        await self._cancel_and_replay()

    def _shares(self) -> list[int]:
        """The number of jobs of each tick; together all that are left."""
        weights = [RUSH_SIZE if tick == int(self._ticks * RUSH_AT) else 1 for tick in range(self._ticks)]
        left, parts = max(self._jobs - CRAWLS, 0), sum(weights)
        ends = [left * weight // parts for weight in itertools.accumulate(weights)]
        return [end - begin for begin, end in itertools.pairwise([0, *ends])]

    def _stream(self) -> Iterator[Job]:
        while True:
            yield self._job(next(self._numbers))

    def _job(self, number: int) -> Job:
        tenant = self._rng.choices(TENANTS, (2, 1))[0]
        kind = self._rng.choices(list(MIX), list(MIX.values()))[0]
        mail, media = MAIL[tenant], MEDIA[tenant]
        if kind is warm_cache:
            page = number % 5
            return warm_cache.options(queue=media, id=f"page/{page}").job(page=page)
        if kind is resize_image:
            return resize_image.options(queue=media, id=f"image/{number}").job(number=number)
        if kind is daily_report:
            is_far = number % 3 == 0
            delay = "1d" if is_far else f"{self._rng.randint(500, 2_500)}ms"
            report = daily_report.options(queue=mail, id=f"report/{number}", delay=delay).job(number=number)
            self.tomorrow += [report] * is_far
            return report
        if kind is flash_sale:
            until_ms = SystemClock().now_ms() + self._rng.randint(100, 1_500)
            return flash_sale.options(queue=mail, id=f"sale/{number}", expires_at=until_ms).job(number=number)
        if kind is charge_card:
            return charge_card.options(queue=mail, id=f"order/{number}", tag="money").job(order=number)
        if kind is sync_crm:
            return sync_crm.options(queue=mail, id=f"customer/{number}").job(customer=number)
        return welcome_mail.options(queue=mail, id=f"user/{number}").job(user=number)

    async def _cancel_and_replay(self) -> None:
        client = await app.client()
        dropped, self.tomorrow = self.tomorrow[:5], self.tomorrow[5:]
        for job in dropped:
            await client.cancel(job.queue, job.id)
        for queue in MAIL.values():
            dead_letters = [
                each for each in (await client.store.dead.list(queue)).rows if each.record.kind == charge_card.kind
            ]
            if dead_letters:
                await client.store.dead.replay(queue, [dead_letter.key for dead_letter in dead_letters[::2]])
