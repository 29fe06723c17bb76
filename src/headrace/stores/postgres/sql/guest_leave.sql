-- Give the caller its search_path back, and have waiters woken when its transaction commits.
--
-- args  search_path, channel, payloads
SELECT set_config('search_path', %s::text, true),
  (SELECT count(pg_notify(%s::text, payload)) FROM unnest(%s::text[]) AS payload)
