-- Set the mark.
INSERT INTO alive (one) VALUES (true)
