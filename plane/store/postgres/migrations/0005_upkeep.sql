-- Log lines that are not added to any more, compressed: the oldest of an operation. `places` says which nodes and
-- steps wrote them, `bytes` how long they were.
CREATE TABLE log_segments (
    operation_id   TEXT COLLATE "C" NOT NULL,
    first_sequence BIGINT NOT NULL,
    last_sequence  BIGINT NOT NULL,
    lines          BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    places         TEXT NOT NULL,
    body           BYTEA NOT NULL
);
CREATE UNIQUE INDEX log_segments_by_operation ON log_segments (operation_id, last_sequence);

-- How much was kept of what a node wrote in an operation.
CREATE TABLE log_totals (
    operation_id TEXT COLLATE "C" NOT NULL,
    node_id      TEXT COLLATE "C" NOT NULL,
    bytes        BIGINT NOT NULL,
    PRIMARY KEY (operation_id, node_id)
);

-- What one plane does for all.
CREATE TABLE chores (
    name          TEXT COLLATE "C" PRIMARY KEY,
    claimed_by    TEXT NOT NULL,
    claimed_until BIGINT NOT NULL
);

CREATE INDEX operations_by_end ON operations (finished_at, operation_id) WHERE finished_at IS NOT NULL;
