-- Move calls with numbers from the inbox of a shard to its journal. Lines are not carried to the client and back: they are
-- most of what a call leaves. One without lines, or that retention has given up already, only goes.
--
-- args     arrays: ticket, last_seq or NULL, at_ms; then shard_id, epoch, the last seq that was given up
WITH gone AS (
  DELETE FROM inbox USING unnest(%b::bigint[], %b::bigint[], %b::bigint[]) AS given (ticket, last_seq, at_ms)
  WHERE inbox.shard_id = %b::bigint AND inbox.ticket = given.ticket
  RETURNING inbox.shard_id, given.last_seq, given.at_ms, inbox.count, inbox.worker, inbox.lines
)
INSERT INTO journal (shard_id, last_seq, epoch, at_ms, count, worker, lines)
SELECT shard_id, last_seq, %b::bigint, at_ms, count, worker, lines FROM gone WHERE last_seq > %b::bigint;
