"""Jobs in your own transaction: an order and its receipt are both there, or neither is.

python examples/own_transaction.py postgres://user:password@host/database
"""

import asyncio
import sys

import psycopg

from headrace import App

app = App(sys.argv[1] if len(sys.argv) > 1 else None, tenant="shop")


@app.job(queue="mail")
async def receipt(order: int) -> None:
    """Sent to whoever has placed an order."""
    print(f"receipt of order {order}")


async def place(url: str, order: int, total: int) -> None:
    """Place an order; its receipt is a job of the same transaction."""
    client = await app.client()
    async with await psycopg.AsyncConnection.connect(url) as connection:  # commits at its end, unless something raises
        await connection.execute("INSERT INTO orders VALUES (%s, %s)", (order, total))
        await client.enqueue_on(connection, [receipt.job(order)])
        if total < 0:
            raise ValueError("nobody pays less than nothing")


async def main(url: str) -> None:
    """One order that is placed, one that is not."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY, total integer)")

    await place(url, 1, 99)
    try:
        await place(url, 2, -5)
    except ValueError as error:
        print(f"order 2 was not placed: {error}")

    async with await psycopg.AsyncConnection.connect(url) as connection:
        orders = await (await connection.execute("SELECT id FROM orders ORDER BY id")).fetchall()
    print("orders:", *[id for (id,) in orders])
    await app.work(until_idle=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name a database: python examples/own_transaction.py postgres://user:password@host/database")
    asyncio.run(main(sys.argv[1]))
