-- Make the partition of the journal that holds a seq, unless it is there. Those who make and those who drop partitions
-- wait for each other, readers and writers of the journal for neither: a table is attached, not created in place.
CREATE FUNCTION journal_reach(wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  span CONSTANT bigint := 4000000;
  part CONSTANT bigint := wanted / span;
BEGIN
  LOCK TABLE journal IN SHARE UPDATE EXCLUSIVE MODE;
  IF to_regclass(format('journal_%s', part)) IS NULL THEN
    EXECUTE format(
      'CREATE TABLE journal_%s (LIKE journal INCLUDING ALL) WITH (autovacuum_vacuum_scale_factor = 0.05)', part);
    EXECUTE format(
      'ALTER TABLE journal ATTACH PARTITION journal_%s FOR VALUES FROM (%s) TO (%s)',
      part, part * span, (part + 1) * span);
  END IF;
END
$$;
