"""Notices that the server may have lost the end of what it had: after a crash, a failover or a restore."""

from headrace.model.limits import FENCE_JUMP
from headrace.stores.postgres.connect import Connection, roll_back
from headrace.stores.postgres.sql import sql


def notice_lost_tail(connection: Connection) -> bool:
    """Raise the epoch of every shard and feed when the mark that only a clean stop preserves is gone; whether it was.

    Every connection does this before anything else: none outlives a crash, so nothing is written before it is noticed.
    """
    if connection.execute(sql("alive_find")).fetchall():
        return False
    connection.execute(b"BEGIN", prepare=False)
    try:
        connection.execute(sql("alive_lock"))
        lost = not connection.execute(sql("alive_find")).fetchall()  # another connection may have been faster
        if lost:
            if connection.execute(sql("epoch_raise")).rowcount:
                connection.execute(sql("fence_raise"), (FENCE_JUMP,))
            connection.execute(sql("feed_epoch_raise"))
            connection.execute(sql("alive_write"))
    except BaseException:
        roll_back(connection)
        raise
    connection.execute(b"COMMIT", prepare=False)
    return lost
