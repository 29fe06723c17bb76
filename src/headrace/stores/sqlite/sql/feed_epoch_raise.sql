-- A tail may be lost: every feed gets a new epoch.
--
-- args     the clock in milliseconds
UPDATE feed SET epoch = max(epoch + 1, ?);
