with times as (
    select tenant, queue, kind, quantile_cont(wait_ms, 0.95) as wait_p95_ms, quantile_cont(run_ms, 0.95) as run_p95_ms
    from {{ source('headrace', 'attempts') }}
    where ended_at is not null
    group by all
)

select
    tenant,
    queue,
    kind,
    count(*) as jobs,
    count(*) filter (outcome is null) as open,
    count(*) filter (outcome = 'done') as done,
    count(*) filter (outcome = 'dead') as dead,
    any_value(times.wait_p95_ms) as wait_p95_ms,
    any_value(times.run_p95_ms) as run_p95_ms
from {{ source('headrace', 'jobs') }}
left join times using (tenant, queue, kind)
group by all
