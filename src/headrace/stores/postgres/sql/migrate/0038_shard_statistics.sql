-- Keep the planner's belief that a shard may hold every row of a table. The next ANALYZE would note which shards hold the
-- most and take all others for empty; then a young shard is read whole for every id that is looked up. Where that was
-- noted already it stays as it is: what is known is true of the shards that are named.
DO $$
DECLARE
  name text;
BEGIN
  FOREACH name IN ARRAY ARRAY['job', 'finished_job', 'key', 'dead_letter'] LOOP
    IF NOT EXISTS (
      SELECT FROM pg_stats
      WHERE schemaname = current_schema() AND tablename = name AND attname = 'shard_id' AND most_common_vals IS NOT NULL
    ) THEN
      EXECUTE format('ALTER TABLE %I ALTER COLUMN shard_id SET STATISTICS 0', name);
    END IF;
  END LOOP;
END $$;
