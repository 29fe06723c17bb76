-- A tail may be lost: every shard gets an epoch and fences that no life of what was lost can have had.
--
-- args     the clock in milliseconds, in microseconds twice, fence jump for a clock that was put back
UPDATE shard SET epoch = max(epoch + 1, ?), fence = CASE WHEN ? > fence THEN ? ELSE fence + ? END;
