-- Tell the planner that a feed may hold every row of a table, as for shards: without statistics it would rather read a
-- whole feed than look up the ids it was given. And have that never gathered anew: a feed that came after the gathering
-- would be taken for empty, however large it has grown.
DO $$
DECLARE
  name text;
BEGIN
  INSERT INTO feed_item (feed_id, at_ms, rank, id, item) VALUES (0, 0, '', '', '');
  INSERT INTO feed_change (feed_id, seq, at_ms, id, about, item) VALUES (0, 0, 0, '', '', '');
  FOREACH name IN ARRAY ARRAY['feed_item', 'feed_change'] LOOP
    EXECUTE format('ALTER TABLE %I ALTER COLUMN feed_id SET (n_distinct = 1)', name);
    EXECUTE format('ANALYZE %I', name);
    EXECUTE format('ALTER TABLE %I ALTER COLUMN feed_id SET STATISTICS 0', name);
    EXECUTE format('DELETE FROM %I WHERE feed_id = 0', name);
  END LOOP;
END $$;
