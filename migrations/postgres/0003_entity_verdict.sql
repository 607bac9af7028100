-- How the change that an entity shows was judged when it came; null where that was before this column. The statement that
-- writes a batch's entities judges while it holds each row, and gives the verdict back by this column: what the row held
-- before, nothing else could tell it.
ALTER TABLE entities ADD COLUMN verdict text COLLATE "C"
    CONSTRAINT entities_verdict CHECK (verdict IN ('applied', 'noop', 'tie'));
