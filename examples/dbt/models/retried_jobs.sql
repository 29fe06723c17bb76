select tenant, queue, id, kind, deliveries, ended_at - enqueued_at as took
from {{ source('headrace', 'jobs') }}
where outcome = 'done' and deliveries > 1
