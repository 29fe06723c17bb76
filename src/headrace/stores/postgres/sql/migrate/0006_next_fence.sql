-- Draws fences.
CREATE SEQUENCE next_fence CACHE 1;
