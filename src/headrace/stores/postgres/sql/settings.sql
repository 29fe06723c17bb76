-- What the safety of jobs depends on, as the server is set up now.
--
-- answers  whether fsync, full_page_writes and autovacuum are on; connections of clients, and how many there may be
SELECT
  current_setting('fsync')::boolean, current_setting('full_page_writes')::boolean,
  current_setting('autovacuum')::boolean,
  (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
  current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint;
