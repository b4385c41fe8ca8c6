-- Tasks that this host has taken. A row is removed when the plane has accepted the task's end.
CREATE TABLE tasks (
    task_id TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL DEFAULT 1,
    outcome TEXT
) STRICT;

-- Every start of a step.
CREATE TABLE attempts (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    step_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'failed', 'finished')),
    PRIMARY KEY (task_id, step_id, attempt)
) STRICT;

-- How steps ended.
CREATE TABLE outcomes (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    step_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (task_id, step_id)
) STRICT;

-- What the plane has not acknowledged yet.
CREATE TABLE events (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (task_id, sequence)
) STRICT;
