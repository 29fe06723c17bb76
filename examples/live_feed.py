"""Live feeds: a board whose order is made by hand, followed by a screen that was away for a while."""

import asyncio

from headrace import App, Change

app = App("memory://")


def show(change: Change) -> None:
    """One line for everything that a subscription tells."""
    where = "" if change.position is None else f" {change.position.where} {change.position.id or ''}".rstrip()
    what = "" if change.item is None else f" {change.item!r}"
    print(f"{change.event:<9} {change.id}{what}{where}".rstrip())


async def main() -> None:
    """Put, edit, move and take away; watch all of it, stop, and go on behind the last change that was seen."""
    async with app:
        feeds = await app.feeds()
        board = await feeds.sorted("board")
        mill = await board.append("repair the mill")
        await board.append("paint the door")

        print("what is there, then what changes:")
        async with board.subscribe() as screen:
            while (change := await anext(screen)).event != "live":
                show(change)
            await board.before(mill, "buy timber")
            show(await anext(screen))
            seen = screen.cursor

        print("while the screen was away:")
        await board.edit("2", "paint the door blue")
        await board.move("2", first=True)
        await board.retract(mill)
        async with board.subscribe(cursor=seen) as screen:
            for change in await screen.batch():
                show(change)

        print("the board:", ", ".join((await board.items()).values()))

        inbox = await feeds.item_queue("inbox")
        await inbox.put("a dead letter")
        await inbox.put("a telegram", high=True)
        print("the inbox:", await inbox.get(), "and", await inbox.get(timeout="1s"))


if __name__ == "__main__":
    asyncio.run(main())
