-- What changed in feeds, by number. What no statement looks at is packed into about.
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
