-- Make later jobs of a shard ready whose time has come, by time, then id; what somebody else is at is left to them. Error
-- HR001 when the queue is not what it was, or a job has a priority of its own. Returns of how many.
CREATE FUNCTION promote_plain(
  the_queue_id bigint, the_config text, the_shard_id bigint, given_now_ms bigint, first_order_key bigint, most bigint,
  OUT promoted bigint
) LANGUAGE plpgsql AS $$
DECLARE
  now_ms CONSTANT bigint := coalesce(given_now_ms, floor(extract(epoch FROM clock_timestamp()) * 1000));
  plain bigint;
BEGIN
  PERFORM FROM queue WHERE queue_id = the_queue_id AND config = the_config;
  IF NOT FOUND THEN
    RAISE 'the queue is not what it was' USING ERRCODE = 'HR001';
  END IF;
  WITH due AS MATERIALIZED (
    -- A short body is nothing but kind, tag and time; in a long one, a priority stands behind its name.
    SELECT ctid AS at, get_byte(body, 0) = 147 OR position('priority'::bytea IN body) = 0 AS is_plain
    FROM job WHERE shard_id = the_shard_id AND order_key IS NULL AND fence IS NULL AND run_at_ms <= now_ms
    ORDER BY run_at_ms, id LIMIT most FOR UPDATE SKIP LOCKED
  ), drawn AS MATERIALIZED (
    SELECT at, is_plain, nextval('next_number') AS number FROM due
  ), moved AS (
    UPDATE job SET order_key = first_order_key + drawn.number FROM drawn WHERE job.ctid = drawn.at RETURNING is_plain
  )
  SELECT count(*), count(*) FILTER (WHERE is_plain) INTO promoted, plain FROM moved;
  IF plain < promoted THEN
    RAISE 'a job has a priority of its own' USING ERRCODE = 'HR001';
  END IF;
  IF promoted > 0 THEN
    INSERT INTO inbox (shard_id, now_ms, count, ready, later, lines) VALUES (the_shard_id, 0, 0, promoted, -promoted, '');
  END IF;
END
$$;
