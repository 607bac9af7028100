-- The spine: events, their bodies and changes, entities, and what duties need.
-- Moments are BIGINT microseconds since the Unix epoch (`*_us`), the same in both dialects. Text that is compared or
-- sorted has COLLATE "C": bytes decide, whatever the database's locale.

-- Every source that was ever configured: the queue of a removed one is still consumed.
CREATE TABLE sources (
    name             text COLLATE "C" PRIMARY KEY,
    first_seen_at_us bigint NOT NULL
);

-- What decides identity and order in each projection; a worker whose fingerprint differs under the same epoch is
-- refused, since order keys made under different rules do not compare.
CREATE TABLE projections (
    source           text COLLATE "C" NOT NULL,
    projection       text COLLATE "C" NOT NULL,
    epoch            integer NOT NULL CHECK (epoch >= 1),
    fingerprint      bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    registered_at_us bigint NOT NULL,
    PRIMARY KEY (source, projection)
);

-- Grows when an epoch is raised; every batch carries the one it was made under. One row.
CREATE TABLE rules_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint NOT NULL
);
INSERT INTO rules_version (version) VALUES (0);

-- The event log. Narrow: bodies and changes stand apart.
CREATE TABLE events (
    id                 uuid PRIMARY KEY,
    source             text COLLATE "C" NOT NULL,
    event_id           text COLLATE "C" NOT NULL,
    type               text COLLATE "C",
    status             text COLLATE "C" NOT NULL
                       CHECK (status IN ('queued', 'retrying', 'dead', 'applied', 'ignored', 'discarded')),
    -- 0 as it came from outside, one more each time we put it back; a verdict of another generation is refused.
    generation         integer NOT NULL CHECK (generation >= 0),
    body_digest        bytea NOT NULL CHECK (octet_length(body_digest) = 32),
    received_at_us     bigint NOT NULL,
    deliveries         bigint NOT NULL CHECK (deliveries >= 0),
    attempts           integer NOT NULL CHECK (attempts >= 0),
    next_attempt_at_us bigint,
    lease_until_us     bigint,
    settled_at_us      bigint,
    dead_at_us         bigint,
    reason             text COLLATE "C",
    message            text,
    -- Where its body stands in `bodies`; null while it is held in `held_bodies`, or after retention dropped it.
    stored_at_us       bigint,
    -- Once: this constraint, not a look-up, decides whether an event is new.
    CONSTRAINT events_once UNIQUE (source, event_id),
    -- The state machine's data: each status has exactly what belongs to it.
    CONSTRAINT events_queued   CHECK ((status = 'queued') = (lease_until_us IS NOT NULL)),
    CONSTRAINT events_retrying CHECK ((status = 'retrying') = (next_attempt_at_us IS NOT NULL)),
    CONSTRAINT events_dead     CHECK ((status = 'dead') = (dead_at_us IS NOT NULL)),
    CONSTRAINT events_settled  CHECK ((status IN ('applied', 'ignored', 'discarded')) = (settled_at_us IS NOT NULL)),
    CONSTRAINT events_reason   CHECK (status NOT IN ('retrying', 'dead') OR reason IS NOT NULL)
);
-- Partial, on unsettled states: an event that is applied at once touches none of them.
CREATE INDEX events_due    ON events (next_attempt_at_us) WHERE status = 'retrying';
CREATE INDEX events_leased ON events (lease_until_us) WHERE status = 'queued';
CREATE INDEX events_parked ON events (source, id) WHERE status IN ('dead', 'retrying', 'queued');

-- Exact bytes of events that are not settled; outside the partitions, so that retention never drops them.
CREATE TABLE held_bodies (
    id    uuid PRIMARY KEY REFERENCES events (id) ON DELETE CASCADE,
    facts text NOT NULL,
    body  bytea NOT NULL
);

-- Exact bytes of settled events, one partition a day, dropped whole by retention.
CREATE TABLE bodies (
    id           uuid NOT NULL,
    stored_at_us bigint NOT NULL,
    facts        text NOT NULL,
    body         bytea NOT NULL,
    PRIMARY KEY (id, stored_at_us)
) PARTITION BY RANGE (stored_at_us);
-- Compressing 1.5 KiB of JSON costs more than it saves; larger bodies go out of line.
ALTER TABLE bodies ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE bodies_default PARTITION OF bodies DEFAULT;

-- Every change with its verdict, one partition a day.
CREATE TABLE changes (
    event      uuid NOT NULL,
    at_us      bigint NOT NULL,
    generation integer NOT NULL,
    ordinal    integer NOT NULL,
    source     text COLLATE "C" NOT NULL,
    entity     text COLLATE "C" NOT NULL,
    key        text COLLATE "C" NOT NULL,
    version    text NOT NULL,
    verdict    text COLLATE "C" NOT NULL CHECK (verdict IN ('applied', 'noop', 'stale', 'tie', 'duplicate')),
    order_key  bytea NOT NULL,
    PRIMARY KEY (event, generation, ordinal, at_us)
) PARTITION BY RANGE (at_us);
CREATE INDEX changes_of_entity ON changes (entity, key, event);
CREATE TABLE changes_default PARTITION OF changes DEFAULT;

-- What the team's own code reads. A row moves only to a higher order key.
CREATE TABLE entities (
    entity        text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    order_key     bytea NOT NULL,
    state         jsonb,
    state_digest  bytea NOT NULL CHECK (octet_length(state_digest) = 32),
    version       text NOT NULL,
    deleted       boolean NOT NULL,
    event         uuid NOT NULL,
    updated_at_us bigint NOT NULL,
    PRIMARY KEY (entity, key),
    CONSTRAINT entities_tombstone CHECK (deleted = (state IS NULL))
);

-- Verdicts that were not "applied at the first try".
CREATE TABLE attempts (
    event      uuid NOT NULL REFERENCES events (id) ON DELETE CASCADE,
    attempt    integer NOT NULL,
    at_us      bigint NOT NULL,
    generation integer NOT NULL,
    status     text COLLATE "C" NOT NULL,
    reason     text COLLATE "C",
    message    text,
    PRIMARY KEY (event, attempt)
);

-- Accepted deliveries that the broker could not take; the relay moves them on.
CREATE TABLE spool (
    sequence       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             uuid NOT NULL,
    source         text COLLATE "C" NOT NULL,
    event_id       text COLLATE "C" NOT NULL,
    type           text COLLATE "C",
    received_at_us bigint NOT NULL,
    body_digest    bytea NOT NULL,
    facts          text NOT NULL,
    body           bytea NOT NULL,
    -- 0 until it is taken for the first time.
    lease_until_us bigint NOT NULL DEFAULT 0
);
-- The order in which the relay takes; without it each claim would sort all that is spooled.
CREATE INDEX spool_free ON spool (lease_until_us, sequence);
-- How long each source has waited, one look per source.
CREATE INDEX spool_oldest ON spool (source, received_at_us);

-- "A process is trying this suspect alone": found after its lease, the process ended meanwhile. After three starts the
-- message is the poison.
CREATE TABLE trials (
    id             uuid NOT NULL,
    generation     integer NOT NULL,
    holder         text NOT NULL,
    started_at_us  bigint NOT NULL,
    lease_until_us bigint NOT NULL,
    starts         integer NOT NULL DEFAULT 1,
    PRIMARY KEY (id, generation)
);

-- Which process has a duty that one at a time has.
CREATE TABLE duties (
    duty           text COLLATE "C" PRIMARY KEY,
    holder         text NOT NULL,
    lease_until_us bigint NOT NULL
);

-- Who did what.
CREATE TABLE audit (
    id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_us  bigint NOT NULL,
    actor  text NOT NULL,
    action text NOT NULL,
    target text NOT NULL,
    detail text
);

-- Answers kept under Idempotency-Key for 24 h; status and body are null while the first request is being answered.
CREATE TABLE idempotency (
    actor  text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    request bytea NOT NULL,
    status integer,
    body   text,
    at_us  bigint NOT NULL,
    PRIMARY KEY (actor, key)
);
CREATE INDEX idempotency_age ON idempotency (at_us);
