-- Only PostgreSQL needs this one: with one writer, what an entity held is read before it is written.
SELECT 1;
