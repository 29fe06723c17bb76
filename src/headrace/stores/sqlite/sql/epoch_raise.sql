-- A tail may be lost: every shard gets a new epoch, and fences beyond any that were handed out.
--
-- args     fence jump
UPDATE shard SET epoch = epoch + 1, fence = fence + ?;
