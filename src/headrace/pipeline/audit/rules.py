"""What each event of the journal means for the records of its id: said once, for the fold in Spark and the one here."""

WAITS = ("enqueued", "updated", "merged", "unblocked", "replayed", "retried", "released", "stalled")
"""After these a job waits, and its record is as they say."""
RUNS = ("claimed", "asked", "blocked")
"""After these it runs. So it does after `cancelled` with the reason `blocked`, which tells of its blocked job."""
OVER = ("done", "dead", "cancelled", "removed", "purged")
"""After these nothing waits or runs; but for `cancelled` with the reason `blocked`, and `purged` with a dead letter."""
SETTLES = ("done", "retried", "released", "stalled", "dead", "cancelled")
"""These end a delivery if they name its fence."""
WITHOUT_BLOCKED_JOB = ("enqueued", "updated", "merged", "unblocked", "replayed", "claimed", "removed")
"""After these there is no blocked job, nor after `cancelled` with the reason `blocked`."""
ENDS = ("done", "cancelled")
"""These leave a finished job, unless they tell of a blocked job."""
ENDLESS = ("enqueued", "replayed", "removed")
"""These delete it, but for `removed` with the reason `lost`: that tells of the job alone."""
WITHOUT_DEAD_LETTER = ("replayed", "purged")
"""These take away the dead letter that they name."""

BLOCKED = "blocked"
"""The reason of a `cancelled` that tells of a blocked job."""
LOST = "lost"
"""The reason of a `removed` of a job whose record was lost; its finished job and its dead letters stay."""
