-- The whole schema: tables with their indexes and sequences, then functions, then what the planner is told.

-- name: store
-- The schema's own row: its layout is the number of the last migration.
CREATE TABLE store (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  layout integer NOT NULL
);

-- name: crash_mark
-- One row that is set once. The table is unlogged, so it is empty after a crash, a failover or a restore from a base
-- backup, and only then: a store that finds it empty may have lost its last writes.
CREATE UNLOGGED TABLE crash_mark (one boolean PRIMARY KEY DEFAULT true CHECK (one));

-- name: queue
-- Queues by tenant and name, with their configuration as JSON, and until when a process waits for the end of one of
-- their jobs: a call that ends jobs notifies only then.
CREATE TABLE queue (
  queue_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  shards integer NOT NULL,
  config text NOT NULL,
  awaited_until_ms bigint NOT NULL DEFAULT 0,
  UNIQUE (tenant, name)
);

-- name: shard
-- A shard: the counters of its journal, and the counts of its records as far as the inbox was folded in. No call on
-- jobs writes here, only the call that numbers the inbox. None of the counters is indexed, and half of each page is
-- left free: every update is HOT.
CREATE TABLE shard (
  shard_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue_id bigint NOT NULL,
  index integer NOT NULL,
  epoch bigint NOT NULL DEFAULT 1,
  seq bigint NOT NULL DEFAULT 0,
  at_ms bigint NOT NULL DEFAULT 0,
  first_seq bigint NOT NULL DEFAULT 1,
  journal_bytes bigint NOT NULL DEFAULT 0,
  oldest_at_ms bigint NOT NULL DEFAULT 0,
  ready bigint NOT NULL DEFAULT 0,
  later bigint NOT NULL DEFAULT 0,
  blocked bigint NOT NULL DEFAULT 0,
  active bigint NOT NULL DEFAULT 0,
  done bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0,
  dead bigint NOT NULL DEFAULT 0,
  unpinned bigint NOT NULL DEFAULT 0,
  UNIQUE (queue_id, index)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- name: next_number
-- Numbers of jobs that become ready: below 2^48, so that a number fits beside its priority in an order key.
CREATE SEQUENCE next_number MAXVALUE 281474976710655 CACHE 1;

-- name: next_fence
-- Fences.
CREATE SEQUENCE next_fence CACHE 1;

-- name: next_dead_letter
-- Numbers of dead letters.
CREATE SEQUENCE next_dead_letter CACHE 1;

-- name: job
-- Jobs that wait or are active: ready with an order key, active with a fence, later with neither; the blocked job of an
-- active one is inside its row. What no statement reads by itself is packed into lease, blocked job and body. A row has
-- three versions in its life, so pages keep some room and vacuum comes early and without pauses.
CREATE TABLE job (
  shard_id bigint NOT NULL,
  order_key bigint,
  run_at_ms bigint NOT NULL,
  expires_at_ms bigint,
  fence bigint,
  id text COLLATE "C" NOT NULL,
  nonce text,
  lease bytea,
  body bytea NOT NULL,
  payload bytea NOT NULL,
  blocked_job bytea,
  PRIMARY KEY (shard_id, id)
) WITH (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2
);

-- name: job_ready
-- The order in which ready jobs are handed out.
CREATE INDEX job_ready ON job (shard_id, order_key) WHERE order_key IS NOT NULL;

-- name: job_later
-- The order in which later jobs become ready.
CREATE INDEX job_later ON job (shard_id, run_at_ms, id) WHERE order_key IS NULL AND fence IS NULL;

-- name: job_active
-- The order in which leases run out.
CREATE INDEX job_active ON job (shard_id, expires_at_ms, id) WHERE fence IS NOT NULL;

-- name: job_blocked
-- Active jobs that have a blocked job.
CREATE INDEX job_blocked ON job (shard_id, id) WHERE blocked_job IS NOT NULL;

-- name: key
-- Used idempotency keys, scoped to their id.
CREATE TABLE key (
  shard_id bigint NOT NULL,
  until_ms bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  fingerprint text NOT NULL,
  PRIMARY KEY (shard_id, id, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- name: key_end
-- The order in which keys run out.
CREATE INDEX key_end ON key (shard_id, until_ms);

-- name: finished_job
-- Jobs that are done or cancelled, at most one per id; a newer one has a higher number.
CREATE TABLE finished_job (
  finished_job_id bigint GENERATED ALWAYS AS IDENTITY,
  shard_id bigint NOT NULL,
  until_ms bigint NOT NULL,
  pinned boolean NOT NULL,
  state text NOT NULL,
  id text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  result bytea,
  PRIMARY KEY (shard_id, id)
) WITH (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- name: finished_job_unpinned
-- The order in which finished jobs are swept.
CREATE INDEX finished_job_unpinned ON finished_job (shard_id, finished_job_id) WHERE NOT pinned;

-- name: finished_job_pinned_order
-- The order in which pinned jobs have finished. Not one index with the others: plans that are made while the table is
-- empty would then read all of a shard to find the oldest one.
CREATE INDEX finished_job_pinned_order ON finished_job (shard_id, finished_job_id) WHERE pinned;

-- name: finished_job_pinned
-- The order in which pinned finished jobs run out.
CREATE INDEX finished_job_pinned ON finished_job (shard_id, until_ms, id) WHERE pinned;

-- name: dead_letter
-- Dead letters, packed, under a number that only grows.
CREATE TABLE dead_letter (
  shard_id bigint NOT NULL,
  number bigint NOT NULL,
  until_ms bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (shard_id, number)
) WITH (autovacuum_vacuum_scale_factor = 0.05);

-- name: dead_letter_by_id
-- The dead letters of an id.
CREATE INDEX dead_letter_by_id ON dead_letter (shard_id, id, number);

-- name: worker
-- Workers seen lately, with the nonce of their last claim that was handed jobs.
CREATE TABLE worker (
  shard_id bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  nonce text NOT NULL,
  seen_at_ms bigint NOT NULL,
  PRIMARY KEY (shard_id, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500);

-- name: inbox
-- Calls whose events have no numbers yet: one row per call and shard, with its journal lines and by how much it changed
-- the counts. Written last in its transaction, so that a call that waited for another one has the higher ticket. Short-
-- lived and never updated.
CREATE TABLE inbox (
  ticket bigint GENERATED ALWAYS AS IDENTITY,
  shard_id bigint NOT NULL,
  now_ms bigint NOT NULL,
  count integer NOT NULL,
  ready integer NOT NULL DEFAULT 0,
  later integer NOT NULL DEFAULT 0,
  blocked integer NOT NULL DEFAULT 0,
  active integer NOT NULL DEFAULT 0,
  done integer NOT NULL DEFAULT 0,
  cancelled integer NOT NULL DEFAULT 0,
  dead integer NOT NULL DEFAULT 0,
  unpinned integer NOT NULL DEFAULT 0,
  worker text,
  lines bytea NOT NULL,
  PRIMARY KEY (shard_id, ticket)
) WITH (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
  toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 4000,
  toast.autovacuum_vacuum_cost_delay = 0
);

-- name: journal
-- The journal: one row per call and shard, under the seq of its last event. Partitions are ranges of seq, the same for
-- all shards: so the key needs nothing beside shard and seq, a reader touches only the range that it reads, and the
-- history of a busy shard goes by dropping whole tables. Young shards share the first ones.
CREATE TABLE journal (
  shard_id bigint NOT NULL,
  last_seq bigint NOT NULL,
  epoch bigint NOT NULL,
  at_ms bigint NOT NULL,
  count integer NOT NULL,
  worker text,
  lines bytea NOT NULL,
  PRIMARY KEY (shard_id, last_seq)
) PARTITION BY RANGE (last_seq);

-- name: journal_0
-- The first partition; it stays, since every new shard begins in it.
CREATE TABLE journal_0 PARTITION OF journal FOR VALUES FROM (MINVALUE) TO (4000000)
WITH (autovacuum_vacuum_scale_factor = 0.05);

-- name: consumer
-- Consumers of the journal that are remembered.
CREATE TABLE consumer (
  shard_id bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  hold boolean NOT NULL,
  seen_at_ms bigint NOT NULL,
  PRIMARY KEY (shard_id, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- name: feed
-- Feeds and directories by tenant and name, with their configuration as JSON and their counters. Every write of a feed
-- locks its row, which gives its changes their order. No counter is indexed, and half of each page is left free: every
-- update is HOT.
CREATE TABLE feed (
  feed_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  created_at_ms bigint NOT NULL,
  epoch bigint NOT NULL,
  seq bigint NOT NULL,
  seq_epoch bigint NOT NULL,
  at_ms bigint NOT NULL,
  first_seq bigint NOT NULL,
  oldest_at_ms bigint NOT NULL,
  changes_bytes bigint NOT NULL,
  items bigint NOT NULL,
  total bigint NOT NULL,
  number bigint NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  birth text NOT NULL,
  config text NOT NULL,
  UNIQUE (tenant, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- name: feed_item
-- The items of feeds by id, which is UTF-8 in bytes since a text cannot hold NUL. Items come at one end and go at the
-- other, so vacuum comes early and without pauses.
CREATE TABLE feed_item (
  feed_id bigint NOT NULL,
  at_ms bigint NOT NULL,
  rank text COLLATE "C" NOT NULL,
  id bytea NOT NULL,
  item bytea NOT NULL,
  PRIMARY KEY (feed_id, id)
) WITH (
  fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0
);

-- name: feed_item_rank
-- The order of a feed. Not unique: two items may trade their ranks within a statement.
CREATE INDEX feed_item_rank ON feed_item (feed_id, rank);

-- name: feed_change
-- Changes of feeds, by number. What no statement reads by itself is packed into about.
CREATE TABLE feed_change (
  feed_id bigint NOT NULL,
  seq bigint NOT NULL,
  at_ms bigint NOT NULL,
  id bytea NOT NULL,
  about bytea NOT NULL,
  item bytea NOT NULL,
  PRIMARY KEY (feed_id, seq)
) WITH (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- name: feed_gone
-- Dropped feeds whose items and changes are still to be erased.
CREATE TABLE feed_gone (feed_id bigint PRIMARY KEY);

-- name: journal_add_partition
-- Add the partition of the journal that holds a seq, unless it exists. Calls that add and drop partitions wait for each
-- other, but not for readers and writers of the journal: a table is attached, not created in place.
CREATE FUNCTION journal_add_partition(wanted bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  span CONSTANT bigint := 4000000;
  part CONSTANT bigint := wanted / span;
BEGIN
  LOCK TABLE journal IN SHARE UPDATE EXCLUSIVE MODE;
  IF to_regclass(format('journal_%s', part)) IS NULL THEN
    EXECUTE format(
      'CREATE TABLE journal_%s (LIKE journal INCLUDING ALL) WITH (autovacuum_vacuum_scale_factor = 0.05)', part);
    EXECUTE format(
      'ALTER TABLE journal ATTACH PARTITION journal_%s FOR VALUES FROM (%s) TO (%s)',
      part, part * span, (part + 1) * span);
  END IF;
END
$$;

-- name: journal_drop_partitions
-- Drop the partitions of the journal that are empty and that no shard writes to now; returns how many. The first stays.
CREATE FUNCTION journal_drop_partitions() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  span CONSTANT bigint := 4000000;
  name text;
  part bigint;
  is_empty boolean;
  dropped integer := 0;
BEGIN
  LOCK TABLE journal IN SHARE UPDATE EXCLUSIVE MODE;
  FOR name, part IN
    SELECT relname, substr(relname, 9)::bigint
    FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
    WHERE inhparent = 'journal'::regclass AND relname <> 'journal_0'
  LOOP
    IF NOT EXISTS (SELECT FROM shard WHERE seq >= part * span - 1 AND seq < (part + 1) * span) THEN
      EXECUTE format('SELECT NOT EXISTS (SELECT FROM %I)', name) INTO is_empty;
      IF is_empty THEN
        EXECUTE format('DROP TABLE %I', name);
        dropped := dropped + 1;
      END IF;
    END IF;
  END LOOP;
  RETURN dropped;
END
$$;

-- name: enqueue_new
-- Insert jobs of one shard that are all new; error HR001 or a duplicate key when anything is unusual. Everything that
-- depends on the instant is put in here, so that reading the store's clock costs no round trip: a body is sent in two
-- parts around its time, and a line whose job is due now says -1 (a quote inside a text is escaped, so nothing else
-- reads so). Returns the instant, and how many calls the inbox holds. Its plans are kept by each connection: planning
-- the statements anew would take longer than the enqueue of a single job. A plan may have been made while the tables
-- were empty, so each statement is written such that one index alone serves it: ids are looked up one by one, and what
-- comes first is read in the order of its index.
CREATE FUNCTION enqueue_new(
  the_queue_id bigint, the_config text, the_shard_id bigint, given_now_ms bigint, waiting_max bigint,
  ids text[], first_order_keys bigint[], runs_at_ms bigint[], heads bytea[], tails bytea[], payloads bytea[],
  the_lines text, OUT the_now_ms bigint, OUT unnumbered bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  unfinished bigint;
  later_count integer;
  dropped_done integer;
  dropped_cancelled integer;
  dropped_unpinned integer;
BEGIN
  the_now_ms := coalesce(given_now_ms, floor(extract(epoch FROM clock_timestamp()) * 1000));
  PERFORM FROM queue WHERE queue_id = the_queue_id AND config = the_config;
  IF NOT FOUND THEN
    RAISE 'the configuration of the queue has changed' USING ERRCODE = 'HR001';
  END IF;
  SELECT shard.ready + shard.later + shard.blocked + coalesce(waits.sum, 0), waits.count INTO unfinished, unnumbered
  FROM shard, (SELECT sum(ready + later + blocked), count(*) FROM inbox WHERE shard_id = the_shard_id) AS waits
  WHERE shard.shard_id = the_shard_id;
  IF unfinished IS NULL OR unfinished + cardinality(ids) > waiting_max THEN
    RAISE 'the shard is full' USING ERRCODE = 'HR001';
  END IF;
  INSERT INTO job (shard_id, id, order_key, run_at_ms, body, payload)
  SELECT the_shard_id, id, CASE WHEN run_at_ms <= the_now_ms THEN first_order_key + nextval('next_number') END,
    run_at_ms, head || int8send(the_now_ms) || tail, payload
  FROM (
    SELECT id, first_order_key, coalesce(run_at_ms, the_now_ms) AS run_at_ms, head, tail, payload
    FROM unnest(ids, first_order_keys, runs_at_ms, heads, tails, payloads)
      AS new (id, first_order_key, run_at_ms, head, tail, payload)
  ) AS new;
  SELECT count(*) INTO later_count FROM unnest(runs_at_ms) AS run_at_ms WHERE run_at_ms > the_now_ms;
  WITH dropped AS (
    DELETE FROM finished_job WHERE ctid = ANY (ARRAY (
      SELECT at FROM unnest(ids) AS new (id) CROSS JOIN LATERAL (
        SELECT ctid AS at FROM finished_job WHERE shard_id = the_shard_id AND finished_job.id = new.id LIMIT 1) AS old
    )) RETURNING state, pinned
  )
  SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state <> 'done'),
    count(*) FILTER (WHERE NOT pinned)
  INTO dropped_done, dropped_cancelled, dropped_unpinned FROM dropped;
  INSERT INTO inbox (shard_id, now_ms, count, ready, later, done, cancelled, unpinned, lines)
  VALUES (
    the_shard_id, the_now_ms, cardinality(ids), cardinality(ids) - later_count, later_count, -dropped_done,
    -dropped_cancelled, -dropped_unpinned,
    convert_to(replace(the_lines, '"run_at_ms":-1,', '"run_at_ms":' || the_now_ms || ','), 'UTF8'));
  unnumbered := unnumbered + 1;
END
$$;

-- name: promote_plain
-- Make later jobs of a shard ready whose time has come, by time, then id; rows that another transaction has locked are
-- skipped. Error HR001 when the queue's configuration has changed, or a job has a priority of its own. Returns
-- how many.
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
    RAISE 'the configuration of the queue has changed' USING ERRCODE = 'HR001';
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
    INSERT INTO inbox (shard_id, now_ms, count, ready, later, lines)
    VALUES (the_shard_id, 0, 0, promoted, -promoted, '');
  END IF;
END
$$;

-- name: claim_read_shards
-- Read the shards that a claim visits, in the order of the arguments: the instant, the id, whether the configuration is
-- still this one, the first end of a lease, the first time of a later job, the first order key of a ready one, the
-- worker's last nonce and when it was seen. Its plan is kept, with the same care as those of enqueue_new: planning took
-- a fifth of a millisecond, half of what an idle claim costs the server.
CREATE FUNCTION claim_read_shards(given_now_ms bigint, shard_ids bigint[], configs text[], the_worker text)
RETURNS TABLE (
  now_ms bigint, shard_id bigint, is_known boolean, lease_end_ms bigint, later_ms bigint, first_order_key bigint,
  nonce text, seen_at_ms bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  present CONSTANT bigint := coalesce(given_now_ms, floor(extract(epoch FROM clock_timestamp()) * 1000));
BEGIN
  RETURN QUERY SELECT present, wanted.shard_id, queue.config = wanted.config,
    (
      SELECT expires_at_ms FROM job WHERE job.shard_id = wanted.shard_id AND fence IS NOT NULL
      ORDER BY expires_at_ms LIMIT 1
    ),
    (
      SELECT run_at_ms FROM job WHERE job.shard_id = wanted.shard_id AND order_key IS NULL AND fence IS NULL
      ORDER BY run_at_ms LIMIT 1
    ),
    (
      SELECT order_key FROM job WHERE job.shard_id = wanted.shard_id AND order_key IS NOT NULL
      ORDER BY order_key LIMIT 1
    ),
    worker.nonce, worker.seen_at_ms
  FROM unnest(shard_ids, configs) WITH ORDINALITY AS wanted (shard_id, config, position)
  CROSS JOIN LATERAL (SELECT queue_id FROM shard WHERE shard.shard_id = wanted.shard_id LIMIT 1) AS shard
  CROSS JOIN LATERAL (SELECT config FROM queue WHERE queue.queue_id = shard.queue_id LIMIT 1) AS queue
  LEFT JOIN LATERAL (
    SELECT worker.nonce, worker.seen_at_ms FROM worker
    WHERE worker.shard_id = wanted.shard_id AND worker.name = the_worker LIMIT 1
  ) AS worker ON true
  ORDER BY position;
END
$$;

-- name: claim_record
-- Record the jobs that a claim has handed out on a shard: the lines and counts in the inbox, and the worker. Returns
-- whether another ready job follows the last order key. Plans are kept as in enqueue_new.
CREATE FUNCTION claim_record(
  the_shard_id bigint, the_now_ms bigint, the_worker text, taken bigint, the_lines bytea, the_nonce text,
  last_order_key bigint, OUT has_more boolean
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  INSERT INTO inbox (shard_id, now_ms, count, ready, active, worker, lines)
  VALUES (the_shard_id, the_now_ms, taken, -taken, taken, the_worker, the_lines);
  INSERT INTO worker (shard_id, name, nonce, seen_at_ms) VALUES (the_shard_id, the_worker, the_nonce, the_now_ms)
  ON CONFLICT (shard_id, name) DO UPDATE SET nonce = excluded.nonce, seen_at_ms = excluded.seen_at_ms;
  has_more := (
    SELECT order_key FROM job WHERE job.shard_id = the_shard_id AND order_key > last_order_key
    ORDER BY order_key LIMIT 1) IS NOT NULL;
END
$$;

-- name: finished_job_body
-- The body of a finished job, made of the long body of a job: its kind, tag and time, the instant of the end, attempts
-- and stalls; all in MessagePack. NULL where it cannot be made of the bytes alone: the job keeps its result for a time
-- of its own, or a text or number is longer than nearly all are.
CREATE FUNCTION finished_job_body(body bytea, ended bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  after integer := 1;  -- where the next value begins
  head integer;
BEGIN
  IF get_byte(body, 0) NOT BETWEEN 149 AND 153 OR position('result_ttl_ms'::bytea IN body) > 0 THEN
    RETURN NULL;
  END IF;
  FOR text IN 1..2 LOOP  -- kind and tag
    head := get_byte(body, after);
    IF head = 192 THEN
      after := after + 1;
    ELSIF head BETWEEN 160 AND 191 THEN
      after := after + 1 + head - 160;
    ELSIF head = 217 THEN
      after := after + 2 + get_byte(body, after + 1);
    ELSE
      RETURN NULL;
    END IF;
  END LOOP;
  after := after + CASE get_byte(body, after) WHEN 207 THEN 9 WHEN 206 THEN 5 END;
  IF after IS NULL OR get_byte(body, after) > 127 OR get_byte(body, after + 1) > 127 THEN
    RETURN NULL;
  END IF;
  RETURN '\x96' || substring(body FROM 2 FOR after - 1) || ended || substring(body FROM after + 1 FOR 2);
END
$$;

-- name: settle_record
-- Sweep the finished jobs of one shard beyond the bound, now that some were added, and write the settlement to the
-- inbox; error HR001 when finished jobs have run out. Plans are kept as in enqueue_new. Returns how many calls the
-- inbox holds.
CREATE FUNCTION settle_record(
  the_shard_id bigint, the_now_ms bigint, keep_max bigint, sweep_max bigint, the_worker text, settled bigint,
  new_done bigint, new_unpinned bigint, the_lines bytea, OUT unnumbered bigint
) LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  excess bigint;
  oldest_until_ms bigint;
  pinned_until_ms bigint;
  swept_done bigint := 0;
  swept_cancelled bigint := 0;
BEGIN
  SELECT shard.unpinned + coalesce(kept.sum, 0) + new_unpinned - keep_max, kept.count INTO excess, unnumbered
  FROM shard, (SELECT sum(unpinned), count(*) FROM inbox WHERE shard_id = the_shard_id) AS kept
  WHERE shard.shard_id = the_shard_id;
  IF excess > 0 THEN
    WITH oldest AS MATERIALIZED (
      SELECT ctid FROM finished_job WHERE shard_id = the_shard_id AND NOT pinned
      ORDER BY finished_job_id LIMIT least(excess, sweep_max) FOR UPDATE SKIP LOCKED
    ), swept AS (
      DELETE FROM finished_job WHERE ctid = ANY (ARRAY (SELECT ctid FROM oldest)) RETURNING state
    )
    SELECT count(*) FILTER (WHERE state = 'done'), count(*) FILTER (WHERE state <> 'done')
    INTO swept_done, swept_cancelled FROM swept;
  END IF;
  SELECT until_ms INTO oldest_until_ms
  FROM finished_job WHERE shard_id = the_shard_id AND NOT pinned ORDER BY finished_job_id LIMIT 1;
  SELECT until_ms INTO pinned_until_ms
  FROM finished_job WHERE shard_id = the_shard_id AND pinned ORDER BY until_ms LIMIT 1;
  IF oldest_until_ms <= the_now_ms OR pinned_until_ms <= the_now_ms THEN
    RAISE 'finished jobs have run out' USING ERRCODE = 'HR001';
  END IF;
  INSERT INTO inbox (shard_id, now_ms, count, active, done, cancelled, unpinned, worker, lines)
  VALUES (
    the_shard_id, the_now_ms, settled, -settled, new_done - swept_done, -swept_cancelled,
    new_unpinned - swept_done - swept_cancelled, the_worker, the_lines);
  unnumbered := unnumbered + 1;
END
$$;

-- name: settle_plain
-- Settle deliveries of one shard that are all done, in one statement: drop the jobs, write their finished jobs, sweep,
-- and write to the inbox; error HR001 or a duplicate key when anything is unusual, HR002 when a delivery does not hold
-- its lease or the finished job of one cannot be made here. Returns the instant, whether a process waits for the end of
-- a job of the queue, and how many calls the inbox holds. The plan of the delete is not kept: one that was made while
-- the table was empty might read a whole shard. Ids come in their order, in which jobs are locked everywhere.
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
    RAISE 'the configuration of the queue has changed' USING ERRCODE = 'HR001';
  END IF;
  WITH dropped AS (
    DELETE FROM job USING unnest(positions, ids, tokens, results) AS delivery (position, id, token, result)
    WHERE job.shard_id = the_shard_id AND job.id = delivery.id
    RETURNING delivery.position, job.id, delivery.result,
      CASE WHEN expires_at_ms > the_now_ms AND nonce || '.' || fence = token AND blocked_job IS NULL THEN
        -- A short body is nothing but kind, tag and time.
        CASE WHEN get_byte(body, 0) = 147 THEN '\x96' || substring(body FROM 2) || ended || '\x0000'
        ELSE finished_job_body(body, ended) END
      END AS body
  ), written AS (
    INSERT INTO finished_job (shard_id, until_ms, pinned, state, id, body, result)
    SELECT the_shard_id, the_now_ms + keep_ms, false, 'done', id, body, result
    FROM dropped WHERE body IS NOT NULL ORDER BY position  -- finished jobs are swept in the order of the call
  )
  SELECT count(body) INTO settled FROM dropped;
  IF settled <> cardinality(ids) THEN
    RAISE 'not every delivery can be settled in one statement' USING ERRCODE = 'HR002';
  END IF;
  unnumbered := settle_record(
    the_shard_id, the_now_ms, keep_max, sweep_max, the_worker, settled, settled, settled, the_lines);
END
$$;

-- name: settle_done
-- Write finished jobs and journal lines of deliveries of one shard that are all done and already dropped (`pins` is 1
-- for a finished job that is kept however many there are); error HR001 or a duplicate key when anything is unusual.
-- Plans are kept as in enqueue_new. Returns how many calls the inbox holds.
CREATE FUNCTION settle_done(
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
    RAISE 'an older finished job has to be replaced' USING ERRCODE = 'HR001';
  END IF;
  INSERT INTO finished_job (shard_id, until_ms, pinned, state, id, body, result)
  SELECT the_shard_id, until_ms, pin = 1, 'done', id, body, result
  FROM unnest(ids, untils_ms, pins, bodies, results) AS new (id, until_ms, pin, body, result);
  SELECT count(*) INTO new_unpinned FROM unnest(pins) AS pin WHERE pin = 0;
  unnumbered := settle_record(
    the_shard_id, the_now_ms, keep_max, sweep_max, the_worker, settled, cardinality(ids), new_unpinned, the_lines);
END
$$;

-- name: line_compression
-- Compress journal lines by lz4 where the server was built with it: pglz was 8 % of what the server did in a drain.
-- Lines are compressed when they enter the inbox, and stay so on their way to the journal. Where there is no lz4, the
-- inbox takes lines as they are, since compressing what is read once, soon, costs more than it saves; pglz compresses
-- them in the journal, beside the calls.
DO $$
DECLARE
  name regclass;
BEGIN
  IF EXISTS (
    SELECT FROM pg_settings WHERE pg_settings.name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
  ) THEN
    FOREACH name IN ARRAY ARRAY['inbox', 'journal', 'journal_0']::regclass[] LOOP
      EXECUTE format('ALTER TABLE %s ALTER COLUMN lines SET COMPRESSION lz4', name);
    END LOOP;
  ELSE
    ALTER TABLE inbox ALTER COLUMN lines SET STORAGE EXTERNAL;
  END IF;
END $$;

-- name: shard_statistics
-- Tell the planner that a shard may hold every row of a table. Without statistics it takes a shard for half a percent
-- of the rows, and then rather reads a whole shard than looks up ids. One row is analysed and taken out again: an empty
-- table gets no statistics, and keeps those that it has. They are never gathered anew: the next ANALYZE would note
-- which shards hold the most and take all others for empty, and a young shard would be read whole for every id.
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
    EXECUTE format('ALTER TABLE %I ALTER COLUMN shard_id SET STATISTICS 0', name);
    EXECUTE format('DELETE FROM %I WHERE shard_id = 0', name);
  END LOOP;
END $$;

-- name: feed_statistics
-- Tell the planner that a feed may hold every row of a table, as for shards.
DO $$
DECLARE
  name text;
BEGIN
  INSERT INTO feed_item (feed_id, at_ms, rank, id, item) VALUES (0, 0, '', '', '');
  INSERT INTO feed_change (feed_id, seq, at_ms, id, about, item) VALUES (0, 0, 0, '', '', '');
  FOREACH name IN ARRAY ARRAY['feed_item', 'feed_change'] LOOP
    EXECUTE format('ALTER TABLE %I ALTER COLUMN feed_id SET (n_distinct = 1)', name);
    EXECUTE format('ANALYZE %I', name);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN feed_id SET STATISTICS 0', name);
    EXECUTE format('DELETE FROM %I WHERE feed_id = 0', name);
  END LOOP;
END $$;
