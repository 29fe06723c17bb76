-- Whether the server has run without a crash since the mark was set.
--
-- answers  a row if it has
SELECT one FROM alive
