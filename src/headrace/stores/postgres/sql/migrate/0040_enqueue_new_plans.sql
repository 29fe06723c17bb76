-- As before, with plans that a connection keeps: planning these statements anew took longer than the enqueue of a single
-- job itself. A plan may have been made while the tables were empty, so each statement is written such that one index
-- alone serves it: ids are looked up one by one, and what comes first is asked for in the order of its index.
CREATE OR REPLACE FUNCTION enqueue_new(
  the_queue_id bigint, the_config text, the_shard_id bigint, given_now_ms bigint, waiting_max bigint,
  ids text[], first_places bigint[], runs_at_ms bigint[], heads bytea[], tails bytea[], payloads bytea[],
  the_lines text, OUT the_now_ms bigint, OUT unnumbered bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  held bigint;
  made_later integer;
  old_done integer;
  old_cancelled integer;
  old_unpinned integer;
BEGIN
  the_now_ms := coalesce(given_now_ms, floor(extract(epoch FROM clock_timestamp()) * 1000));
  PERFORM FROM queue WHERE queue_id = the_queue_id AND config = the_config;
  IF NOT FOUND THEN
    RAISE 'the queue is not what it was' USING ERRCODE = 'HR001';
  END IF;
  SELECT shard.ready + shard.later + shard.blocked + coalesce(waits.sum, 0), waits.count INTO held, unnumbered
  FROM shard, (SELECT sum(ready + later + blocked), count(*) FROM inbox WHERE shard_id = the_shard_id) AS waits
  WHERE shard.shard_id = the_shard_id;
  IF held IS NULL OR held + cardinality(ids) > waiting_max THEN
    RAISE 'the shard is full' USING ERRCODE = 'HR001';
  END IF;
  INSERT INTO job (shard_id, id, order_key, run_at_ms, body, payload)
  SELECT the_shard_id, id, CASE WHEN run_at_ms <= the_now_ms THEN first_order_key + nextval('next_number') END, run_at_ms,
    head || int8send(the_now_ms) || tail, payload
  FROM (
    SELECT id, first_order_key, coalesce(run_at_ms, the_now_ms) AS run_at_ms, head, tail, payload
    FROM unnest(ids, first_places, runs_at_ms, heads, tails, payloads)
      AS new (id, first_order_key, run_at_ms, head, tail, payload)
  ) AS new;
  SELECT count(*) INTO made_later FROM unnest(runs_at_ms) AS run_at_ms WHERE run_at_ms > the_now_ms;
  WITH gone AS (
    DELETE FROM finished_job WHERE ctid = ANY (ARRAY (
      SELECT at FROM unnest(ids) AS new (id) CROSS JOIN LATERAL (
        SELECT ctid AS at FROM finished_job WHERE shard_id = the_shard_id AND finished_job.id = new.id LIMIT 1) AS old
    )) RETURNING state, pinned
  )
  SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state <> 'done'),
    count(*) FILTER (WHERE NOT pinned)
  INTO old_done, old_cancelled, old_unpinned FROM gone;
  INSERT INTO inbox (shard_id, now_ms, count, ready, later, done, cancelled, unpinned, lines)
  VALUES (
    the_shard_id, the_now_ms, cardinality(ids), cardinality(ids) - made_later, made_later, -old_done, -old_cancelled,
    -old_unpinned,
    convert_to(replace(the_lines, '"run_at_ms":-1,', '"run_at_ms":' || the_now_ms || ','), 'UTF8'));
  unnumbered := unnumbered + 1;
END
$$;
