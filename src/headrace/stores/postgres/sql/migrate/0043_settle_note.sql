-- Sweep the finished jobs of one shard beyond the bound, now that some were added, and leave in the inbox what a settlement has
-- done; error HR001 when finished jobs have run out. Plans are kept as in settle_done. Returns how many calls the inbox holds.
CREATE FUNCTION settle_note(
  the_shard_id bigint, the_now_ms bigint, keep_max bigint, sweep_max bigint, the_worker text, settled bigint,
  new_done bigint, new_unpinned bigint, the_lines bytea, OUT unnumbered bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  over bigint;
  over_ms bigint;
  pin_over_ms bigint;
  gone_done bigint := 0;
  gone_cancelled bigint := 0;
BEGIN
  SELECT shard.unpinned + coalesce(kept.sum, 0) + new_unpinned - keep_max, kept.count INTO over, unnumbered
  FROM shard, (SELECT sum(unpinned), count(*) FROM inbox WHERE shard_id = the_shard_id) AS kept
  WHERE shard.shard_id = the_shard_id;
  IF over > 0 THEN
    WITH oldest AS MATERIALIZED (
      SELECT ctid FROM finished_job WHERE shard_id = the_shard_id AND NOT pinned
      ORDER BY finished_job_id LIMIT least(over, sweep_max) FOR UPDATE SKIP LOCKED
    ), gone AS (
      DELETE FROM finished_job WHERE ctid = ANY (ARRAY (SELECT ctid FROM oldest)) RETURNING state
    )
    SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state <> 'done')
    INTO gone_done, gone_cancelled FROM gone;
  END IF;
  SELECT until_ms INTO over_ms FROM finished_job WHERE shard_id = the_shard_id AND NOT pinned ORDER BY finished_job_id LIMIT 1;
  SELECT until_ms INTO pin_over_ms FROM finished_job WHERE shard_id = the_shard_id AND pinned ORDER BY until_ms LIMIT 1;
  IF over_ms <= the_now_ms OR pin_over_ms <= the_now_ms THEN
    RAISE 'finished_jobs are over' USING ERRCODE = 'HR001';
  END IF;
  INSERT INTO inbox (shard_id, now_ms, count, active, done, cancelled, unpinned, worker, lines)
  VALUES (
    the_shard_id, the_now_ms, settled, -settled, new_done - gone_done, -gone_cancelled,
    new_unpinned - gone_done - gone_cancelled, the_worker, the_lines);
  unnumbered := unnumbered + 1;
END
$$;
