-- Draws the number of a job that becomes ready: below 2^48, so that it fits beside its priority in a place.
CREATE SEQUENCE next_number MAXVALUE 281474976710655 CACHE 1;
