-- As before, with the sweep and the inbox left to settle_note.
CREATE OR REPLACE FUNCTION settle_done(
  the_shard_id bigint, the_now_ms bigint, keep_max bigint, sweep_max bigint, the_worker text, settled bigint,
  the_lines bytea, unkept text[], ids text[], untils_ms bigint[], pins bigint[], bodies bytea[], results bytea[],
  OUT unnumbered bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  new_unpinned bigint;
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
  unnumbered := settle_note(
    the_shard_id, the_now_ms, keep_max, sweep_max, the_worker, settled, cardinality(ids), new_unpinned, the_lines);
END
$$;
