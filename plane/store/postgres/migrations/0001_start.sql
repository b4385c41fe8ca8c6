-- Times are milliseconds since the Unix epoch. Identifiers are ULIDs. Documents are JSON text, not JSONB: what was
-- written is read back byte by byte, whatever numbers and characters are in it.
--
-- Identifiers and names compare by their bytes ("C"), so that every server orders and finds them alike.

CREATE TABLE projects (
    project_id TEXT COLLATE "C" PRIMARY KEY,
    org_id     TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE tokens (
    token_id    TEXT COLLATE "C" PRIMARY KEY,
    name        TEXT COLLATE "C" NOT NULL,
    role        TEXT NOT NULL,
    org_id      TEXT,
    project_id  TEXT,
    secret_hash TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at  BIGINT NOT NULL,
    expires_at  BIGINT,
    revoked_at  BIGINT
);
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;

CREATE TABLE join_tokens (
    join_token_id TEXT COLLATE "C" PRIMARY KEY,
    secret_hash   TEXT COLLATE "C" NOT NULL UNIQUE,
    uses_left     BIGINT NOT NULL CHECK (uses_left >= 0),
    org_id        TEXT,
    project_id    TEXT,
    created_at    BIGINT NOT NULL,
    expires_at    BIGINT NOT NULL
);

CREATE TABLE nodes (
    node_id           TEXT COLLATE "C" PRIMARY KEY,
    name              TEXT COLLATE "C" NOT NULL UNIQUE,
    secret_hash       TEXT COLLATE "C" NOT NULL UNIQUE,
    join_token_id     TEXT COLLATE "C" NOT NULL REFERENCES join_tokens,
    org_id            TEXT,
    project_id        TEXT,
    host_version      TEXT NOT NULL,
    capabilities      TEXT NOT NULL,
    labels            TEXT NOT NULL DEFAULT '{}',
    slots             BIGINT NOT NULL,
    registered_at     BIGINT NOT NULL,
    last_heartbeat_at BIGINT
);

CREATE TABLE operation_definitions (
    operation_type TEXT COLLATE "C" PRIMARY KEY,
    created_at     BIGINT NOT NULL
);

CREATE TABLE operation_definition_versions (
    definition_version_id TEXT COLLATE "C" PRIMARY KEY,
    operation_type        TEXT COLLATE "C" NOT NULL REFERENCES operation_definitions,
    version               TEXT COLLATE "C" NOT NULL,
    version_number        BIGINT NOT NULL,
    sources               TEXT NOT NULL,
    definition            TEXT NOT NULL,
    catalog               TEXT NOT NULL,
    status                TEXT NOT NULL,
    created_at            BIGINT NOT NULL,
    created_by            TEXT NOT NULL,
    UNIQUE (operation_type, version)
);

CREATE TABLE operations (
    operation_id         TEXT COLLATE "C" PRIMARY KEY,
    operation_type       TEXT NOT NULL,
    version              TEXT NOT NULL,
    org_id               TEXT NOT NULL,
    project_id           TEXT COLLATE "C" NOT NULL REFERENCES projects,
    requested_by_user_id TEXT NOT NULL,
    target_selector      TEXT NOT NULL,
    idempotency_key      TEXT COLLATE "C",
    request_digest       TEXT NOT NULL,
    correlation_id       TEXT NOT NULL,
    trigger_source       TEXT NOT NULL,
    linked_allocation_id TEXT,
    linked_node_id       TEXT COLLATE "C" NOT NULL REFERENCES nodes,
    sources              TEXT NOT NULL,
    inputs               TEXT NOT NULL,
    plan_digest          TEXT NOT NULL,
    total_steps          BIGINT NOT NULL,
    status               TEXT NOT NULL,
    failure              TEXT,
    created_at           BIGINT NOT NULL,
    started_at           BIGINT,
    finished_at          BIGINT,
    cancel_requested_at  BIGINT,
    total_nodes          BIGINT NOT NULL,
    run                  BIGINT NOT NULL DEFAULT 1,
    priority             BIGINT NOT NULL,
    deadline             BIGINT,
    deadline_passed      BOOLEAN NOT NULL DEFAULT FALSE,
    max_parallel_nodes   BIGINT,
    failure_budget       BIGINT,
    max_concurrency_global  BIGINT,
    max_concurrency_tenant  BIGINT,
    max_concurrency_project BIGINT,
    requires             TEXT,
    -- When a node was first given a task of the newest run.
    dispatched_at        BIGINT,
    trace_parent         TEXT
);
CREATE UNIQUE INDEX operations_by_key ON operations (project_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX operations_by_project ON operations (project_id, operation_id);
CREATE INDEX operations_under_way ON operations (operation_type, org_id, project_id)
    WHERE dispatched_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX operations_limited ON operations (operation_type)
    WHERE status = 'queued' AND dispatched_at IS NULL
        AND coalesce(max_concurrency_global, max_concurrency_tenant, max_concurrency_project) IS NOT NULL;
CREATE INDEX operations_by_deadline ON operations (deadline)
    WHERE deadline IS NOT NULL AND finished_at IS NULL AND NOT deadline_passed;

CREATE TABLE tasks (
    task_id          TEXT COLLATE "C" PRIMARY KEY,
    operation_id     TEXT COLLATE "C" NOT NULL REFERENCES operations,
    node_id          TEXT COLLATE "C" NOT NULL REFERENCES nodes,
    status           TEXT NOT NULL,
    epoch            BIGINT NOT NULL DEFAULT 0,
    deadline         BIGINT,
    acknowledged     BIGINT NOT NULL DEFAULT 0,
    last_sequence    BIGINT NOT NULL DEFAULT 0,
    cancel_requested BIGINT NOT NULL DEFAULT 0,
    org_id           TEXT COLLATE "C" NOT NULL,
    priority         BIGINT NOT NULL,
    run              BIGINT NOT NULL DEFAULT 1,
    -- A task of an earlier run that a newer one replaces.
    superseded       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX tasks_ready ON tasks (node_id, org_id, priority DESC, task_id) WHERE status = 'ready';
CREATE INDEX tasks_held ON tasks (node_id, org_id) WHERE status = 'leased';
CREATE INDEX tasks_leased ON tasks (deadline) WHERE status = 'leased';
CREATE INDEX tasks_by_operation ON tasks (operation_id);

-- Steps and artifacts are written by the statement that writes their operation, and by none else.
CREATE TABLE operation_steps (
    task_id        TEXT COLLATE "C" NOT NULL,
    step_id        TEXT COLLATE "C" NOT NULL,
    operation_id   TEXT COLLATE "C" NOT NULL,
    step_index     BIGINT NOT NULL,
    kind           TEXT NOT NULL,
    component      TEXT NOT NULL,
    needs          TEXT NOT NULL,
    status         TEXT NOT NULL DEFAULT 'pending',
    attempt_number BIGINT NOT NULL DEFAULT 0,
    started_at     BIGINT,
    percent        BIGINT,
    message        TEXT,
    last_log       TEXT,
    log_lines      BIGINT NOT NULL DEFAULT 0,
    outcome        TEXT,
    duration_ms    BIGINT,
    finished_at    BIGINT,
    -- Attempts of earlier runs: an attempt's number never comes twice in an operation.
    attempts_before BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (task_id, step_id)
);
CREATE INDEX operation_steps_by_operation ON operation_steps (operation_id, step_index);

CREATE TABLE operation_artifacts (
    operation_id TEXT COLLATE "C" NOT NULL,
    role         TEXT COLLATE "C" NOT NULL,
    reference    TEXT NOT NULL,
    PRIMARY KEY (operation_id, role)
);

-- What is followed by number. Numbers come from the one row of `journal`, which a transaction locks just before
-- it commits: so the order of the numbers is the order in which the rows become visible.
CREATE TABLE journal (
    only_one       BOOLEAN PRIMARY KEY DEFAULT TRUE CHECK (only_one),
    audit_sequence BIGINT NOT NULL DEFAULT 0,
    event_sequence BIGINT NOT NULL DEFAULT 0,
    log_sequence   BIGINT NOT NULL DEFAULT 0,
    link           TEXT
) WITH (fillfactor = 10);
INSERT INTO journal DEFAULT VALUES;

CREATE TABLE operation_logs (
    sequence     BIGINT PRIMARY KEY,
    operation_id TEXT COLLATE "C" NOT NULL,
    node_id      TEXT COLLATE "C" NOT NULL,
    step_id      TEXT COLLATE "C" NOT NULL,
    attempt      BIGINT NOT NULL,
    at           BIGINT NOT NULL,
    level        TEXT NOT NULL,
    text         TEXT NOT NULL
);
CREATE INDEX operation_logs_by_operation ON operation_logs (operation_id, sequence);

CREATE TABLE outbox_events (
    sequence     BIGINT PRIMARY KEY,
    operation_id TEXT COLLATE "C" NOT NULL,
    kind         TEXT NOT NULL,
    at           BIGINT NOT NULL,
    payload      TEXT NOT NULL
);
CREATE INDEX outbox_events_by_operation ON outbox_events (operation_id, sequence);

CREATE TABLE audit_logs (
    sequence       BIGINT PRIMARY KEY,
    at             BIGINT NOT NULL,
    actor          TEXT NOT NULL,
    scope          TEXT NOT NULL,
    action         TEXT NOT NULL,
    resource_name  TEXT NOT NULL,
    result         TEXT NOT NULL,
    correlation_id TEXT NOT NULL,
    operation_id   TEXT COLLATE "C",
    details        TEXT,
    report_key     TEXT COLLATE "C",
    link           TEXT
);
CREATE UNIQUE INDEX audit_logs_by_report ON audit_logs (report_key) WHERE report_key IS NOT NULL;
CREATE INDEX audit_logs_denials ON audit_logs (operation_id, sequence) WHERE report_key IS NOT NULL;

-- When a node was last given a task of an organisation while other organisations waited too.
CREATE TABLE node_turns (
    node_id      TEXT COLLATE "C" NOT NULL REFERENCES nodes,
    org_id       TEXT COLLATE "C" NOT NULL,
    last_turn_at BIGINT NOT NULL,
    PRIMARY KEY (node_id, org_id)
);

CREATE TABLE node_sets (
    project_id TEXT COLLATE "C" NOT NULL REFERENCES projects,
    kind       TEXT NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    org_id     TEXT NOT NULL,
    nodes      TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, kind, name)
);
