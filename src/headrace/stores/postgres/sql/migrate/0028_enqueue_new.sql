-- Take in jobs of one shard that are all new, if nothing about them is unusual; error HR001 or a duplicate key otherwise.
-- What depends on the instant is put in here, so that the store's clock costs no round trip: a body is sent in two parts
-- around its time, a line whose job is due now says -1 (a quote inside a text is escaped, so nothing else reads so).
-- Returns the instant, and how many calls the inbox holds.
CREATE FUNCTION enqueue_new(
  the_queue_id bigint, the_config text, the_shard_id bigint, given_now_ms bigint, waiting_max bigint,
  ids text[], first_places bigint[], runs_at_ms bigint[], heads bytea[], tails bytea[], payloads bytea[],
  the_lines text, OUT the_now_ms bigint, OUT unnumbered bigint
) LANGUAGE plpgsql AS $$
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
  WITH gone AS (DELETE FROM finished_job WHERE shard_id = the_shard_id AND id = ANY (ids) RETURNING state, pinned)
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
