-- Make room in the journal for a seq.
--
-- args     seq
SELECT journal_reach(%s);
