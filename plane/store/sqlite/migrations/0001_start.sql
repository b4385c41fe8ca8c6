-- Times are milliseconds since the Unix epoch. Documents are JSON text. Identifiers are ULIDs.

CREATE TABLE projects (
    project_id TEXT PRIMARY KEY,
    org_id     TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    token_id    TEXT PRIMARY KEY,
    name        TEXT NOT NULL,
    role        TEXT NOT NULL,
    org_id      TEXT,
    project_id  TEXT,
    secret_hash TEXT NOT NULL UNIQUE,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,
    revoked_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;

CREATE TABLE join_tokens (
    join_token_id TEXT PRIMARY KEY,
    secret_hash   TEXT NOT NULL UNIQUE,
    uses_left     INTEGER NOT NULL CHECK (uses_left >= 0),
    org_id        TEXT,
    project_id    TEXT,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE nodes (
    node_id           TEXT PRIMARY KEY,
    name              TEXT NOT NULL UNIQUE,
    secret_hash       TEXT NOT NULL UNIQUE,
    join_token_id     TEXT NOT NULL REFERENCES join_tokens,
    org_id            TEXT,
    project_id        TEXT,
    host_version      TEXT NOT NULL,
    capabilities      TEXT NOT NULL,
    slots             INTEGER NOT NULL,
    registered_at     INTEGER NOT NULL,
    last_heartbeat_at INTEGER
) STRICT;

CREATE TABLE operation_definitions (
    operation_type TEXT PRIMARY KEY,
    created_at     INTEGER NOT NULL
) STRICT;

CREATE TABLE operation_definition_versions (
    definition_version_id TEXT PRIMARY KEY,
    operation_type        TEXT NOT NULL REFERENCES operation_definitions,
    version               TEXT NOT NULL,
    version_number        INTEGER NOT NULL,
    sources               TEXT NOT NULL,
    definition            TEXT NOT NULL,
    catalog               TEXT NOT NULL,
    status                TEXT NOT NULL,
    created_at            INTEGER NOT NULL,
    created_by            TEXT NOT NULL,
    UNIQUE (operation_type, version)
) STRICT;

CREATE TABLE operations (
    operation_id         TEXT PRIMARY KEY,
    operation_type       TEXT NOT NULL,
    version              TEXT NOT NULL,
    org_id               TEXT NOT NULL,
    project_id           TEXT NOT NULL REFERENCES projects,
    requested_by_user_id TEXT NOT NULL,
    target_selector      TEXT NOT NULL,
    idempotency_key      TEXT,
    request_digest       TEXT NOT NULL,
    correlation_id       TEXT NOT NULL,
    trigger_source       TEXT NOT NULL,
    linked_allocation_id TEXT,
    linked_node_id       TEXT NOT NULL REFERENCES nodes,
    sources              TEXT NOT NULL,
    inputs               TEXT NOT NULL,
    plan_digest          TEXT NOT NULL,
    total_steps          INTEGER NOT NULL,
    status               TEXT NOT NULL,
    failure              TEXT,
    created_at           INTEGER NOT NULL,
    started_at           INTEGER,
    finished_at          INTEGER,
    cancel_requested_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX operations_by_key ON operations (project_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX operations_by_project ON operations (project_id, operation_id);

CREATE TABLE tasks (
    task_id          TEXT PRIMARY KEY,
    operation_id     TEXT NOT NULL REFERENCES operations,
    node_id          TEXT NOT NULL REFERENCES nodes,
    status           TEXT NOT NULL,
    epoch            INTEGER NOT NULL DEFAULT 0,
    deadline         INTEGER,
    acknowledged     INTEGER NOT NULL DEFAULT 0,
    last_sequence    INTEGER NOT NULL DEFAULT 0,
    cancel_requested INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX tasks_open ON tasks (node_id, status, task_id) WHERE status IN ('ready', 'leased');
CREATE INDEX tasks_leased ON tasks (deadline) WHERE status = 'leased';
CREATE INDEX tasks_by_operation ON tasks (operation_id);

CREATE TABLE operation_steps (
    task_id        TEXT NOT NULL REFERENCES tasks,
    step_id        TEXT NOT NULL,
    operation_id   TEXT NOT NULL,
    step_index     INTEGER NOT NULL,
    kind           TEXT NOT NULL,
    component      TEXT NOT NULL,
    needs          TEXT NOT NULL,
    status         TEXT NOT NULL DEFAULT 'pending',
    attempt_number INTEGER NOT NULL DEFAULT 0,
    started_at     INTEGER,
    percent        INTEGER,
    message        TEXT,
    last_log       TEXT,
    log_lines      INTEGER NOT NULL DEFAULT 0,
    outcome        TEXT,
    duration_ms    INTEGER,
    finished_at    INTEGER,
    PRIMARY KEY (task_id, step_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_steps_by_operation ON operation_steps (operation_id, step_index);

CREATE TABLE operation_artifacts (
    operation_id TEXT NOT NULL REFERENCES operations,
    role         TEXT NOT NULL,
    reference    TEXT NOT NULL,
    PRIMARY KEY (operation_id, role)
) STRICT, WITHOUT ROWID;

CREATE TABLE operation_logs (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_id TEXT NOT NULL,
    step_id      TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    level        TEXT NOT NULL,
    text         TEXT NOT NULL
) STRICT;
CREATE INDEX operation_logs_by_operation ON operation_logs (operation_id, sequence);

CREATE TABLE outbox_events (
    sequence     INTEGER PRIMARY KEY AUTOINCREMENT,
    operation_id TEXT NOT NULL,
    kind         TEXT NOT NULL,
    at           INTEGER NOT NULL,
    payload      TEXT NOT NULL
) STRICT;
CREATE INDEX outbox_events_by_operation ON outbox_events (operation_id, sequence);

CREATE TABLE audit_logs (
    sequence       INTEGER PRIMARY KEY AUTOINCREMENT,
    at             INTEGER NOT NULL,
    actor          TEXT NOT NULL,
    scope          TEXT NOT NULL,
    action         TEXT NOT NULL,
    resource_name  TEXT NOT NULL,
    result         TEXT NOT NULL,
    correlation_id TEXT NOT NULL
) STRICT;
