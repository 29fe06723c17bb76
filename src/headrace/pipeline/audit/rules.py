"""What each event of the journal means for the records of its id: said once, for the fold in Spark and the one here."""

WAITS = ("enqueued", "updated", "merged", "unblocked", "replayed", "retried", "released", "stalled")
"""After these a job waits, and its record is as they say."""
RUNS = ("claimed", "asked", "blocked")
"""After these it runs. So it does after `cancelled` with the reason `blocked`, which tells of its twin."""
OVER = ("done", "dead", "cancelled", "removed", "purged")
"""After these nothing waits or runs; but for `cancelled` with the reason `blocked`, and `purged` with a letter."""
SETTLES = ("done", "retried", "released", "stalled", "dead", "cancelled")
"""These end a delivery if they name its fence."""
TWINLESS = ("enqueued", "updated", "merged", "unblocked", "replayed", "claimed", "removed")
"""After these there is no twin, nor after `cancelled` with the reason `blocked`."""
ENDS = ("done", "cancelled")
"""These leave an ending, unless they tell of a twin."""
ENDLESS = ("enqueued", "replayed", "removed")
"""These delete it, but for `removed` with the reason `lost`: that tells of the job alone."""
UNLETTERED = ("replayed", "purged")
"""These take away the letter that they name."""

BLOCKED = "blocked"
"""The reason of a `cancelled` that tells of a twin."""
LOST = "lost"
"""The reason of a `removed` of a job whose record was lost; its ending and its letters stay."""
