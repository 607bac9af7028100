-- The spine: events, their bodies and changes, entities, and what duties need.
-- Moments are BIGINT microseconds since the Unix epoch (`*_us`), the same in both dialects. Text that is compared or
-- sorted is compared byte by byte.

-- Every source that was ever configured: the queue of a removed one is still consumed.
CREATE TABLE sources (
    name             TEXT PRIMARY KEY,
    first_seen_at_us INTEGER NOT NULL
) STRICT;

-- What decides identity and order in each projection; a worker whose fingerprint differs under the same epoch is
-- refused, since order keys made under different rules do not compare.
CREATE TABLE projections (
    source           TEXT NOT NULL,
    projection       TEXT NOT NULL,
    epoch            INTEGER NOT NULL CHECK (epoch >= 1),
    fingerprint      BLOB NOT NULL CHECK (length(fingerprint) = 32),
    registered_at_us INTEGER NOT NULL,
    PRIMARY KEY (source, projection)
) STRICT;

-- Grows when an epoch is raised; every batch carries the one it was made under. One row.
CREATE TABLE rules_version (
    only_row INTEGER PRIMARY KEY DEFAULT 1 CHECK (only_row = 1),
    version  INTEGER NOT NULL
) STRICT;
INSERT INTO rules_version (version) VALUES (0);

-- The event log. Narrow: bodies and changes stand apart.
CREATE TABLE events (
    id                 BLOB PRIMARY KEY,
    source             TEXT NOT NULL,
    event_id           TEXT NOT NULL,
    type               TEXT,
    status             TEXT NOT NULL
                       CHECK (status IN ('queued', 'retrying', 'dead', 'applied', 'ignored', 'discarded')),
    -- 0 as it came from outside, one more each time we put it back; a verdict of another generation is refused.
    generation         INTEGER NOT NULL CHECK (generation >= 0),
    body_digest        BLOB NOT NULL CHECK (length(body_digest) = 32),
    received_at_us     INTEGER NOT NULL,
    deliveries         INTEGER NOT NULL CHECK (deliveries >= 0),
    attempts           INTEGER NOT NULL CHECK (attempts >= 0),
    next_attempt_at_us INTEGER,
    lease_until_us     INTEGER,
    settled_at_us      INTEGER,
    dead_at_us         INTEGER,
    reason             TEXT,
    message            TEXT,
    -- Where its body stands in `bodies`; null while it is held in `held_bodies`, or after retention dropped it.
    stored_at_us       INTEGER,
    -- Once: this constraint, not a look-up, decides whether an event is new.
    CONSTRAINT events_once UNIQUE (source, event_id),
    -- The state machine's data: each status has exactly what belongs to it.
    CONSTRAINT events_queued   CHECK ((status = 'queued') = (lease_until_us IS NOT NULL)),
    CONSTRAINT events_retrying CHECK ((status = 'retrying') = (next_attempt_at_us IS NOT NULL)),
    CONSTRAINT events_dead     CHECK ((status = 'dead') = (dead_at_us IS NOT NULL)),
    CONSTRAINT events_settled  CHECK ((status IN ('applied', 'ignored', 'discarded')) = (settled_at_us IS NOT NULL)),
    CONSTRAINT events_reason   CHECK (status NOT IN ('retrying', 'dead') OR reason IS NOT NULL)
) STRICT;
-- Partial, on unsettled states: an event that is applied at once touches none of them.
CREATE INDEX events_due    ON events (next_attempt_at_us) WHERE status = 'retrying';
CREATE INDEX events_leased ON events (lease_until_us) WHERE status = 'queued';
CREATE INDEX events_parked ON events (source, id) WHERE status IN ('dead', 'retrying', 'queued');

-- Exact bytes of events that are not settled; retention never drops them.
CREATE TABLE held_bodies (
    id    BLOB PRIMARY KEY REFERENCES events (id) ON DELETE CASCADE,
    facts TEXT NOT NULL,
    body  BLOB NOT NULL
) STRICT;

-- Exact bytes of settled events.
CREATE TABLE bodies (
    id           BLOB NOT NULL,
    stored_at_us INTEGER NOT NULL,
    facts        TEXT NOT NULL,
    body         BLOB NOT NULL,
    PRIMARY KEY (id, stored_at_us)
) STRICT;

-- Every change with its verdict.
CREATE TABLE changes (
    event      BLOB NOT NULL,
    at_us      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    ordinal    INTEGER NOT NULL,
    source     TEXT NOT NULL,
    entity     TEXT NOT NULL,
    key        TEXT NOT NULL,
    version    TEXT NOT NULL,
    verdict    TEXT NOT NULL CHECK (verdict IN ('applied', 'noop', 'stale', 'tie', 'duplicate')),
    order_key  BLOB NOT NULL,
    PRIMARY KEY (event, generation, ordinal, at_us)
) STRICT, WITHOUT ROWID;
CREATE INDEX changes_of_entity ON changes (entity, key, event);

-- What the team's own code reads. A row moves only to a higher order key.
CREATE TABLE entities (
    entity        TEXT NOT NULL,
    key           TEXT NOT NULL,
    order_key     BLOB NOT NULL,
    state         TEXT,
    state_digest  BLOB NOT NULL CHECK (length(state_digest) = 32),
    version       TEXT NOT NULL,
    deleted       INTEGER NOT NULL CHECK (deleted IN (0, 1)),
    event         BLOB NOT NULL,
    updated_at_us INTEGER NOT NULL,
    PRIMARY KEY (entity, key),
    CONSTRAINT entities_tombstone CHECK (deleted = (state IS NULL))
) STRICT;

-- Verdicts that were not "applied at the first try".
CREATE TABLE attempts (
    event      BLOB NOT NULL REFERENCES events (id) ON DELETE CASCADE,
    attempt    INTEGER NOT NULL,
    at_us      INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    status     TEXT NOT NULL,
    reason     TEXT,
    message    TEXT,
    PRIMARY KEY (event, attempt)
) STRICT;

-- The durable queue (the broker's part, in the one file). A row is a message; acking deletes it, rejecting moves it to
-- the dead letters. `tries` counts deliveries that ended without a verdict, as a quorum queue's delivery count does.
CREATE TABLE queue (
    sequence       INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT NOT NULL,
    tries          INTEGER NOT NULL DEFAULT 0,
    death          TEXT CHECK (death IN ('rejected', 'delivery_limit')),
    id             BLOB NOT NULL,
    source         TEXT NOT NULL,
    event_id       TEXT NOT NULL,
    type           TEXT,
    received_at_us INTEGER NOT NULL,
    generation     INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    body_digest    BLOB NOT NULL,
    facts          TEXT NOT NULL,
    body           BLOB NOT NULL
) STRICT;
CREATE INDEX queue_by_name ON queue (name, sequence);

-- Queues that a process takes from. It removes its row when it has counted the tries of what it held; found by the next
-- process, it ended without.
CREATE TABLE takers (
    name TEXT PRIMARY KEY
) STRICT;

-- "A process is trying this suspect alone": found after its lease, the process ended meanwhile. After three starts the
-- message is the poison.
CREATE TABLE trials (
    id             BLOB NOT NULL,
    generation     INTEGER NOT NULL,
    holder         TEXT NOT NULL,
    started_at_us  INTEGER NOT NULL,
    lease_until_us INTEGER NOT NULL,
    starts         INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (id, generation)
) STRICT;

-- Which process has a duty that one at a time has.
CREATE TABLE duties (
    duty           TEXT PRIMARY KEY,
    holder         TEXT NOT NULL,
    lease_until_us INTEGER NOT NULL
) STRICT;

-- Who did what.
CREATE TABLE audit (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us  INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT
) STRICT;

-- Answers kept under Idempotency-Key for 24 h; status and body are null while the first request is being answered.
CREATE TABLE idempotency (
    actor  TEXT NOT NULL,
    key    TEXT NOT NULL,
    request BLOB NOT NULL,
    status INTEGER,
    body   TEXT,
    at_us  INTEGER NOT NULL,
    PRIMARY KEY (actor, key)
) STRICT;
CREATE INDEX idempotency_age ON idempotency (at_us);
