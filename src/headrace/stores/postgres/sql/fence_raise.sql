-- Let fences jump.
--
-- args  by how much
SELECT setval('next_fence', nextval('next_fence') + %s::bigint)
