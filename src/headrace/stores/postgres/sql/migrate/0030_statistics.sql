-- Tell the planner that a shard may hold every row of a table. Without statistics it takes a shard for half a percent of
-- them, and then rather reads a whole shard than looks up the ids it was given. One row is analysed and taken out again:
-- an empty table gets no statistics, and keeps those that it has.
DO $$
DECLARE
  name text;
BEGIN
  INSERT INTO job (shard_id, id, run_at_ms, body, payload) VALUES (0, '', 0, '', '');
  INSERT INTO finished_job (shard_id, id, state, pinned, until_ms, body) VALUES (0, '', '', false, 0, '');
  INSERT INTO key (shard_id, id, key, fingerprint, until_ms) VALUES (0, '', '', '', 0);
  INSERT INTO dead_letter (shard_id, number, id, until_ms, body) VALUES (0, 0, '', 0, '');
  FOREACH name IN ARRAY ARRAY['job', 'finished_job', 'key', 'dead_letter'] LOOP
    EXECUTE format('ALTER TABLE %I ALTER COLUMN shard_id SET (n_distinct = 1)', name);
    EXECUTE format('ANALYZE %I', name);
    EXECUTE format('DELETE FROM %I WHERE shard_id = 0', name);
  END LOOP;
END $$;
