-- Let fences jump beyond any that a life of what was lost can have had: to the clock in microseconds.
--
-- args  by how much where the clock was put back
SELECT setval('next_fence', CASE WHEN now_us > known THEN now_us ELSE known + %s::bigint END)
FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us, nextval('next_fence') AS known) AS present
