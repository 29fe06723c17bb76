-- Drop the partitions of the journal that hold nothing and that no shard writes to now; says how many. The first stays.
CREATE FUNCTION journal_shed() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  span CONSTANT bigint := 4000000;
  name text;
  part bigint;
  is_empty boolean;
  dropped integer := 0;
BEGIN
  LOCK TABLE journal IN SHARE UPDATE EXCLUSIVE MODE;
  FOR name, part IN
    SELECT relname, substr(relname, 9)::bigint
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'journal'::regclass AND relname <> 'journal_0'
  LOOP
    IF NOT EXISTS (SELECT FROM shard WHERE seq >= part * span - 1 AND seq < (part + 1) * span) THEN
      EXECUTE format('SELECT NOT EXISTS (SELECT FROM %I)', name) INTO is_empty;
      IF is_empty THEN
        EXECUTE format('DROP TABLE %I', name);
        dropped := dropped + 1;
      END IF;
    END IF;
  END LOOP;
  RETURN dropped;
END
$$;
