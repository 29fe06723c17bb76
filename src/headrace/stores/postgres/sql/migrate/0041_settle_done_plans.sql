-- As before, with plans that a connection keeps, for the same reason and with the same care.
CREATE OR REPLACE FUNCTION settle_done(
  the_shard_id bigint, the_now_ms bigint, keep_max bigint, sweep_max bigint, the_worker text, settled bigint,
  the_lines bytea, unkept text[], ids text[], untils_ms bigint[], pins bigint[], bodies bytea[], results bytea[],
  OUT unnumbered bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  new_unpinned bigint;
  over bigint;
  over_ms bigint;
  pin_over_ms bigint;
  gone_done bigint := 0;
  gone_cancelled bigint := 0;
BEGIN
  IF cardinality(unkept) > 0 AND EXISTS (
    SELECT FROM unnest(unkept) AS new (id) CROSS JOIN LATERAL (
      SELECT FROM finished_job WHERE shard_id = the_shard_id AND finished_job.id = new.id LIMIT 1) AS old
  ) THEN
    RAISE 'an older finished_job has to go' USING ERRCODE = 'HR001';
  END IF;
  INSERT INTO finished_job (shard_id, until_ms, pinned, state, id, body, result)
  SELECT the_shard_id, until_ms, pin = 1, 'done', id, body, result
  FROM unnest(ids, untils_ms, pins, bodies, results) AS new (id, until_ms, pin, body, result);
  SELECT count(*) INTO new_unpinned FROM unnest(pins) AS pin WHERE pin = 0;
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
    the_shard_id, the_now_ms, settled, -settled, cardinality(ids) - gone_done, -gone_cancelled,
    new_unpinned - gone_done - gone_cancelled, the_worker, the_lines);
  unnumbered := unnumbered + 1;
END
$$;
