-- Draw numbers from a sequence, ascending.
--
-- args     sequence, how many
SELECT nextval(%s::regclass) FROM generate_series(1, %s);
