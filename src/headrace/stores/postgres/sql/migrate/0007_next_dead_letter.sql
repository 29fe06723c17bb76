-- Draws the numbers of dead letters.
CREATE SEQUENCE next_dead_letter CACHE 1;
