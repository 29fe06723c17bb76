-- Say that somebody waits for the end of a job of a queue, unless that has been said for long enough.
--
-- args     for how many milliseconds, tenant, name, how many of them must be left
UPDATE queue SET awaited_until_ms = floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + %s
WHERE tenant = %s AND name = %s
  AND awaited_until_ms < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + %s;
