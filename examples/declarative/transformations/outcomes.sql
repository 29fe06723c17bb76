-- How the jobs of each kind ended, and how long the slowest of them took.
CREATE MATERIALIZED VIEW outcomes AS
SELECT
  tenant,
  queue,
  kind,
  coalesce(outcome, 'open') AS outcome,
  count(*) AS jobs,
  max(run_ms) AS run_ms_max
FROM jobs
GROUP BY ALL;
