-- Whether the attempt came as far as `run`: from then on it may have changed something.
ALTER TABLE attempts ADD COLUMN ran INTEGER NOT NULL DEFAULT 0;

-- Steps that were undone, or were begun to be.
CREATE TABLE undone (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    step_id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'finished')),
    PRIMARY KEY (task_id, step_id)
) STRICT;

-- What attempts asked of this node and were answered. They outlive their tasks, up to a bound.
CREATE TABLE cassettes (
    id INTEGER PRIMARY KEY,
    operation_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    step_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    kind TEXT NOT NULL,
    outcome TEXT NOT NULL,
    failed INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    digest TEXT NOT NULL,
    content BLOB NOT NULL
) STRICT;
