-- Rows are found by their keys and by nothing else: kept in the order of the key, each is written once,
-- not once as a row and once more in an index.
CREATE TABLE attempts_by_key (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    step_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'failed', 'finished')),
    ran INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, step_id, attempt)
) STRICT, WITHOUT ROWID;
INSERT INTO attempts_by_key SELECT task_id, step_id, attempt, state, ran FROM attempts;
DROP TABLE attempts;
ALTER TABLE attempts_by_key RENAME TO attempts;

CREATE TABLE outcomes_by_key (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    step_id TEXT NOT NULL,
    outcome TEXT NOT NULL,
    PRIMARY KEY (task_id, step_id)
) STRICT, WITHOUT ROWID;
INSERT INTO outcomes_by_key SELECT task_id, step_id, outcome FROM outcomes;
DROP TABLE outcomes;
ALTER TABLE outcomes_by_key RENAME TO outcomes;

CREATE TABLE events_by_key (
    task_id TEXT NOT NULL REFERENCES tasks (task_id) ON DELETE CASCADE,
    sequence INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (task_id, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO events_by_key SELECT task_id, sequence, event FROM events;
DROP TABLE events;
ALTER TABLE events_by_key RENAME TO events;
