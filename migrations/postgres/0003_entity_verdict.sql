-- How the change that an entity shows was judged. The statement that writes a batch's entities judges while it holds each
-- row, and gives the verdict back by this column: what the row held before, nothing else could tell it. The column is
-- scratch space of that statement: only its RETURNING reads it. Later it may be null, or be about an earlier change: rows
-- from before this column, and rows that a build from before it moved.
ALTER TABLE entities ADD COLUMN verdict text COLLATE "C";
-- Holds for what is written from now on. In the rows that are there the column is null, so that looking at each of them,
-- with everybody shut out meanwhile, would find nothing.
ALTER TABLE entities ADD CONSTRAINT entities_verdict CHECK (verdict IN ('applied', 'noop', 'tie')) NOT VALID;
