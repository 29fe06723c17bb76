-- Draws the numbers of dead letters.
CREATE SEQUENCE next_letter CACHE 1;
