-- Deliveries that did not verify: the newest of each source, bounded in number and size. Nobody verified what stands
-- here; it is for explaining why.
CREATE TABLE rejected (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    source   TEXT NOT NULL,
    at_us    INTEGER NOT NULL,
    reason   TEXT NOT NULL,
    detail   TEXT NOT NULL,
    -- JSON: the request without its body, secrets left out.
    request  TEXT NOT NULL,
    -- Null where it was too long to be kept.
    body     BLOB
) STRICT;
CREATE INDEX rejected_by_source ON rejected (source, sequence);
