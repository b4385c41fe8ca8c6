-- Who is told of events. `delivered_to` is the last event that needs no more telling; an empty project is the whole
-- organisation. One plane at a time delivers: the one that has claimed it.
CREATE TABLE webhooks (
    webhook_id      TEXT PRIMARY KEY,
    org_id          TEXT NOT NULL,
    project_id      TEXT NOT NULL,
    url             TEXT NOT NULL,
    events          TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('active', 'paused', 'gone')),
    secret          TEXT NOT NULL,
    previous_secret TEXT,
    previous_until  INTEGER,
    delivered_to    INTEGER NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    next_attempt_at INTEGER,
    last_answer     TEXT,
    last_at         INTEGER,
    claimed_by      TEXT,
    claimed_until   INTEGER,
    created_at      INTEGER NOT NULL
) STRICT;
CREATE INDEX webhooks_by_scope ON webhooks (org_id, project_id, webhook_id);

-- What could not be told, whole: the event itself may be gone by now. With `replay_at` it is being told again.
CREATE TABLE webhook_dead_letters (
    webhook_id   TEXT NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    sequence     INTEGER NOT NULL,
    operation_id TEXT NOT NULL,
    kind         TEXT NOT NULL,
    at           INTEGER NOT NULL,
    payload      TEXT NOT NULL,
    attempts     INTEGER NOT NULL,
    last_answer  TEXT NOT NULL,
    failed_at    INTEGER NOT NULL,
    replay_at    INTEGER,
    PRIMARY KEY (webhook_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX webhook_dead_letters_by_age ON webhook_dead_letters (failed_at);
