-- Begin a new epoch of every feed.
UPDATE feed SET epoch = epoch + 1
