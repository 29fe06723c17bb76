-- Failed attempts by hour and error.
CREATE MATERIALIZED VIEW failures AS
SELECT
  date_trunc('hour', happened_at) AS hour,
  tenant,
  kind,
  error_class,
  count(*) AS failures,
  count_if(event = 'dead') AS deaths
FROM events
WHERE event IN ('retried', 'dead') AND error_class IS NOT NULL
GROUP BY ALL;
