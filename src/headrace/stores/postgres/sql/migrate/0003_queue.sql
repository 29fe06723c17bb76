-- Queues by tenant and name, with their live configuration as JSON.
CREATE TABLE queue (
  queue_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  shards integer NOT NULL,
  config text NOT NULL,
  UNIQUE (tenant, name)
);
