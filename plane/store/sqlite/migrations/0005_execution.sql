-- Operations of several nodes and of several runs, their terms, and what fair leasing needs. An operation that
-- was there is one node's, in its first run; `linked_node_id` is the first node where there are several.
ALTER TABLE operations ADD COLUMN total_nodes INTEGER NOT NULL DEFAULT 1;
ALTER TABLE operations ADD COLUMN run INTEGER NOT NULL DEFAULT 1;
ALTER TABLE operations ADD COLUMN priority INTEGER NOT NULL DEFAULT 5;
ALTER TABLE operations ADD COLUMN deadline INTEGER;
ALTER TABLE operations ADD COLUMN deadline_passed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE operations ADD COLUMN max_parallel_nodes INTEGER;
ALTER TABLE operations ADD COLUMN failure_budget INTEGER;
ALTER TABLE operations ADD COLUMN max_concurrency_global INTEGER;
ALTER TABLE operations ADD COLUMN max_concurrency_tenant INTEGER;
ALTER TABLE operations ADD COLUMN max_concurrency_project INTEGER;
ALTER TABLE operations ADD COLUMN requires TEXT;
-- When a node was first given a task of the newest run.
ALTER TABLE operations ADD COLUMN dispatched_at INTEGER;
UPDATE operations SET dispatched_at = started_at WHERE finished_at IS NULL;
CREATE INDEX operations_under_way ON operations (operation_type, org_id, project_id)
    WHERE dispatched_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX operations_limited ON operations (operation_type)
    WHERE status = 'queued' AND dispatched_at IS NULL
        AND coalesce(max_concurrency_global, max_concurrency_tenant, max_concurrency_project) IS NOT NULL;
CREATE INDEX operations_by_deadline ON operations (deadline)
    WHERE deadline IS NOT NULL AND finished_at IS NULL AND deadline_passed = 0;

ALTER TABLE tasks ADD COLUMN org_id TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN priority INTEGER NOT NULL DEFAULT 5;
ALTER TABLE tasks ADD COLUMN run INTEGER NOT NULL DEFAULT 1;
-- A task of an earlier run that a newer one replaces.
ALTER TABLE tasks ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET org_id = (SELECT org_id FROM operations WHERE operations.operation_id = tasks.operation_id);
DROP INDEX tasks_open;
CREATE INDEX tasks_ready ON tasks (node_id, org_id, priority DESC, task_id) WHERE status = 'ready';
CREATE INDEX tasks_held ON tasks (node_id, org_id) WHERE status = 'leased';

-- Attempts of earlier runs: an attempt's number never comes twice in an operation.
ALTER TABLE operation_steps ADD COLUMN attempts_before INTEGER NOT NULL DEFAULT 0;

ALTER TABLE nodes ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';

-- When a node was last given a task of an organisation while other organisations waited too.
CREATE TABLE node_turns (
    node_id      TEXT NOT NULL REFERENCES nodes,
    org_id       TEXT NOT NULL,
    last_turn_at INTEGER NOT NULL,
    PRIMARY KEY (node_id, org_id)
) STRICT, WITHOUT ROWID;

ALTER TABLE operation_logs ADD COLUMN node_id TEXT NOT NULL DEFAULT '';
UPDATE operation_logs
SET node_id = (SELECT linked_node_id FROM operations WHERE operations.operation_id = operation_logs.operation_id);

CREATE TABLE node_sets (
    project_id TEXT NOT NULL REFERENCES projects,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    org_id     TEXT NOT NULL,
    nodes      TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (project_id, kind, name)
) STRICT, WITHOUT ROWID;
