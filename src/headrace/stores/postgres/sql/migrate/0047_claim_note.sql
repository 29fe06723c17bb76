-- Note what a claim has handed out on a shard: the lines and counts in the inbox, and the worker. Whether a ready job stands
-- behind the last order key. Plans are kept.
CREATE FUNCTION claim_note(
  the_shard_id bigint, the_now_ms bigint, the_worker text, taken bigint, the_lines bytea, the_nonce text,
  last_order_key bigint, OUT is_more_there boolean
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  INSERT INTO inbox (shard_id, now_ms, count, ready, active, worker, lines)
  VALUES (the_shard_id, the_now_ms, taken, -taken, taken, the_worker, the_lines);
  INSERT INTO worker (shard_id, name, nonce, seen_at_ms) VALUES (the_shard_id, the_worker, the_nonce, the_now_ms)
  ON CONFLICT (shard_id, name) DO UPDATE SET nonce = excluded.nonce, seen_at_ms = excluded.seen_at_ms;
  is_more_there := (
    SELECT order_key FROM job WHERE job.shard_id = the_shard_id AND order_key > last_order_key ORDER BY order_key LIMIT 1) IS NOT NULL;
END
$$;
