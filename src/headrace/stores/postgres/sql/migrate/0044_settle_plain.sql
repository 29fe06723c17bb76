-- End deliveries of one shard that are all done, in one go: drop the jobs, and write their finished jobs, the sweep and the
-- inbox; error HR001 or a duplicate key when anything is unusual, HR002 when a delivery does not hold its lease or its
-- job is one whose finished job cannot be made here. Returns the instant, whether somebody waits for the end of a job of the
-- queue, and how many calls the inbox holds.
-- The plan of the delete is not kept: one that was made while the table was empty might read a whole shard. Ids come in
-- their order, in which jobs are locked everywhere.
CREATE FUNCTION settle_plain(
  the_queue_id bigint, the_config text, the_shard_id bigint, given_now_ms bigint, keep_ms bigint, keep_max bigint,
  sweep_max bigint, the_worker text, the_lines bytea, positions bigint[], ids text[], tokens text[], results bytea[],
  OUT the_now_ms bigint, OUT is_awaited boolean, OUT unnumbered bigint
) LANGUAGE plpgsql AS $$
DECLARE
  clock_ms CONSTANT bigint := floor(extract(epoch FROM clock_timestamp()) * 1000);
  ended bytea;
  settled bigint;
BEGIN
  the_now_ms := coalesce(given_now_ms, clock_ms);
  ended := '\xcf' || int8send(the_now_ms);
  SELECT awaited_until_ms > clock_ms INTO is_awaited FROM queue WHERE queue_id = the_queue_id AND config = the_config;
  IF is_awaited IS NULL THEN
    RAISE 'the queue is not what it was' USING ERRCODE = 'HR001';
  END IF;
  WITH gone AS (
    DELETE FROM job USING unnest(positions, ids, tokens, results) AS given (position, id, token, result)
    WHERE job.shard_id = the_shard_id AND job.id = given.id
    RETURNING given.position, job.id, given.result,
      CASE WHEN expires_at_ms > the_now_ms AND nonce || '.' || fence = token AND blocked_job IS NULL THEN
        -- A short body is nothing but kind, tag and time.
        CASE WHEN get_byte(body, 0) = 147 THEN '\x96' || substring(body FROM 2) || ended || '\x0000'
        ELSE finished_job_body(body, ended) END
      END AS body
  ), made AS (
    INSERT INTO finished_job (shard_id, until_ms, pinned, state, id, body, result)
    SELECT the_shard_id, the_now_ms + keep_ms, false, 'done', id, body, result
    FROM gone WHERE body IS NOT NULL ORDER BY position  -- finished jobs are as old as their place in the call
  )
  SELECT count(body) INTO settled FROM gone;
  IF settled <> cardinality(ids) THEN
    RAISE 'not every delivery is a plain one' USING ERRCODE = 'HR002';
  END IF;
  unnumbered := settle_note(
    the_shard_id, the_now_ms, keep_max, sweep_max, the_worker, settled, settled, settled, the_lines);
END
$$;
