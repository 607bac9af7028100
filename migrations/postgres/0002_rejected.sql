-- Deliveries that did not verify: the newest of each source, bounded in number and size. Nobody verified what stands
-- here; it is for explaining why.
CREATE TABLE rejected (
    sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source   text COLLATE "C" NOT NULL,
    at_us    bigint NOT NULL,
    reason   text NOT NULL,
    detail   text NOT NULL,
    -- JSON: the request without its body, secrets left out.
    request  text NOT NULL,
    -- Null where it was too long to be kept.
    body     bytea
);
CREATE INDEX rejected_by_source ON rejected (source, sequence);
