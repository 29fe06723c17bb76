-- Note that a migration was applied.
--
-- args  its number
INSERT INTO store (layout) VALUES (%s) ON CONFLICT (one) DO UPDATE SET layout = excluded.layout
