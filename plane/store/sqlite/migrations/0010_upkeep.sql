-- Log lines that are not added to any more, compressed: the oldest of an operation. `places` says which nodes and
-- steps wrote them, `bytes` how long they were.
CREATE TABLE log_segments (
    operation_id   TEXT NOT NULL,
    first_sequence INTEGER NOT NULL,
    last_sequence  INTEGER NOT NULL,
    lines          INTEGER NOT NULL,
    bytes          INTEGER NOT NULL,
    places         TEXT NOT NULL,
    body           BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_segments_by_operation ON log_segments (operation_id, last_sequence);

-- How much was kept of what a node wrote in an operation.
CREATE TABLE log_totals (
    operation_id TEXT NOT NULL,
    node_id      TEXT NOT NULL,
    bytes        INTEGER NOT NULL,
    PRIMARY KEY (operation_id, node_id)
) STRICT, WITHOUT ROWID;

-- What one plane does for all.
CREATE TABLE chores (
    name          TEXT PRIMARY KEY,
    claimed_by    TEXT NOT NULL,
    claimed_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX operations_by_end ON operations (finished_at, operation_id) WHERE finished_at IS NOT NULL;
