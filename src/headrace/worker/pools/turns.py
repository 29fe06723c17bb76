"""Turns: who may use one of the places of a pool, first come, first served."""

import asyncio
from collections import deque


class Turns:
    """So many turns at once; who comes when all are taken waits."""

    def __init__(self, size: int) -> None:
        self.free = size
        """Turns that nobody has and nobody waits for."""
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> None:
        """Returns when it is the caller's turn, who gives it back when done."""
        if self.free:
            self.free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give()  # granted and cancelled in the same moment: the next one has it
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def give(self) -> None:
        """A turn is over: the first who waits has it now."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.free += 1

    def cancel(self) -> None:
        """Send away all who wait, with `CancelledError`."""
        for turn in self._waiting:
            turn.cancel()
