-- Compress journal lines by lz4 where the server was built with it: pglz was 8 % of what the server did in a drain. They are
-- compressed when they enter the inbox, and stay so on their way to the journal.
-- Where there is no lz4, the inbox takes lines as they are and pglz compresses them in the journal, beside the calls.
DO $$
DECLARE
  name regclass;
BEGIN
  IF EXISTS (SELECT FROM pg_settings WHERE pg_settings.name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
    FOR name IN
      SELECT oid FROM pg_class WHERE oid IN ('inbox'::regclass, 'journal'::regclass)
      UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent = 'journal'::regclass
    LOOP
      EXECUTE format('ALTER TABLE %s ALTER COLUMN lines SET STORAGE EXTENDED', name);
      EXECUTE format('ALTER TABLE %s ALTER COLUMN lines SET COMPRESSION lz4', name);
    END LOOP;
  END IF;
END $$;
