-- A tail may be lost: every feed gets a new epoch.
UPDATE feed SET epoch = epoch + 1;
