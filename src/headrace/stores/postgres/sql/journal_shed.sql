-- Drop partitions of the journal that are not needed any more.
SELECT journal_shed();
