-- Let statements find our tables until the caller's transaction ends, or `guest_leave`.
--
-- args     schema
-- answers  the search_path that was in force
WITH before AS MATERIALIZED (SELECT current_setting('search_path') AS path)
SELECT path FROM before, set_config('search_path', %s::text, true)
