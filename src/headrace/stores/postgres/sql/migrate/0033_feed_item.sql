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
