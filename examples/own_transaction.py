"""Jobs in your own transaction: an order and its receipt are both there, or neither is.

python examples/own_transaction.py postgres://user:password@host/database
"""

import asyncio
import secrets
import sys

import psycopg

from headrace import ClaimRequest, Done, Queue, new_job, open_store
from headrace.stores.postgres.store import PostgresStore

MAIL = Queue("mail", tenant="shop")


async def place(store: PostgresStore, url: str, order: int, total: int) -> None:
    """Place an order; its receipt is a job of the same transaction."""
    async with await psycopg.AsyncConnection.connect(url) as connection:  # commits at its end, unless something raises
        await connection.execute("INSERT INTO orders VALUES (%s, %s)", (order, total))
        await store.enqueue_on(connection, [new_job(MAIL, "receipt", b"%d" % order, fresh_id=f"receipt/{order}")])
        if total < 0:
            raise ValueError("nobody pays less than nothing")


async def main(url: str) -> None:
    """One order that is placed, one that is not."""
    store = await open_store(url)
    assert isinstance(store, PostgresStore)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("CREATE TABLE IF NOT EXISTS orders (id integer PRIMARY KEY, total integer)")

    await place(store, url, 1, 99)
    try:
        await place(store, url, 2, -5)
    except ValueError as error:
        print(f"order 2 was not placed: {error}")

    async with await psycopg.AsyncConnection.connect(url) as connection:
        orders = await (await connection.execute("SELECT id FROM orders ORDER BY id")).fetchall()
    print("orders:", *[id for (id,) in orders])
    request = ClaimRequest(queues=[MAIL], worker="worker-1", nonce=secrets.token_hex(8), limit=10)
    claims = (await store.jobs.claim(request)).items
    print("receipts to send:", *[claim.record.payload.decode() for claim in claims])
    await store.jobs.settle([claim.settle(Done()) for claim in claims])
    await store.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name a database: python examples/own_transaction.py postgres://user:password@host/database")
    asyncio.run(main(sys.argv[1]))
