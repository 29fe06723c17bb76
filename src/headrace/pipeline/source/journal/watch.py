"""Notices when a journal is no longer the one that was read, at the price of a look where nothing has happened."""

from collections.abc import Mapping

from headrace.model.event import Bounds
from headrace.pipeline.source.journal import loss
from headrace.pipeline.source.journal.known import Known
from headrace.pipeline.source.journal.loss import Loss, ResumedJournal
from headrace.pipeline.source.journal.offset import Mark, Offset

_NONE = Bounds(0, 1, 0, None, None, 0)
"""Of a journal that is not there."""


class JournalIdentity:
    """Remembers what it has seen of the journals, and looks into those that tell another story."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.bounds: dict[str, Bounds] = {}
        """What the journals held when it was last remembered."""
        self._checked: dict[str, Mark] = {}

    def remember(self, bounds: dict[str, Bounds]) -> None:
        """Take what was looked at as seen."""
        self.bounds = bounds

    def trust(self, marks: Mapping[str, Mark]) -> None:
        """Take marks as true that were just read."""
        self._checked |= marks

    async def look(self, start: Offset, *, is_first: bool) -> tuple[dict[str, Bounds], list[Loss]]:
        """What the journals hold, and what is missing in them of what was read up to `start`; `is_first` when nothing
        was read yet."""
        await self._known.find()
        bounds = await self._known.bounds()
        doubted = {name: mark for name, mark in start.shards.items() if self._is_doubted(name, mark, bounds)}
        if not doubted:
            return bounds, []
        if any(name not in bounds or bounds[name].last_seq == 0 for name in doubted):
            # It may be gone, or was made anew since queues were looked for.
            await self._known.find(now=True)
            bounds = await self._known.bounds()
        now = await self._known.marks({name: mark.seq for name, mark in doubted.items()})
        losses = []
        for name, mark in doubted.items():
            found = self._missing(name, mark, bounds.get(name), now[name], is_first=is_first)
            if found is None:
                self._checked[name] = mark
            else:
                losses.append(found)
        return bounds, losses

    async def resume(self, found: Loss) -> ResumedJournal:
        """Where to go on after a loss."""
        mark = found.mark
        cut = await self._known.cut(found.name, found.bounds, mark.epoch, mark.at_ms) if found.is_other else 0
        return loss.resume(found, cut)

    def _is_doubted(self, name: str, mark: Mark, bounds: Mapping[str, Bounds]) -> bool:
        """Whether a journal must be looked into. What it holds tells without, mostly: a journal that was made anew
        has another first event, and one that lost its tail another epoch."""
        now, seen = bounds.get(name), self.bounds.get(name)
        if now is None or seen is None or self._checked.get(name) != mark:
            return True
        if now.epoch != seen.epoch or now.last_seq < seen.last_seq or now.first_seq > mark.seq + 1:
            return True
        return now.first_seq < seen.first_seq or (
            now.first_seq == seen.first_seq <= seen.last_seq and now.first_at_ms != seen.first_at_ms
        )

    def _missing(self, name: str, mark: Mark, bounds: Bounds | None, now: Mark, *, is_first: bool) -> Loss | None:
        if bounds is None:
            return Loss(name, "gone", mark, _NONE) if mark.seq and self._known.is_gone(name) else None
        found = loss.find(name, mark, bounds, now)
        if found is not None and found.kind == "trimmed" and is_first and not mark.digest:
            # Nothing was read yet: the earliest that is kept is what was asked for, also when it moves.
            return None
        return found
