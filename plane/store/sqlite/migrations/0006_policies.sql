-- What the platform, organisations and projects say of operation types. Absent names are empty, so that they
-- are part of the key.
CREATE TABLE operation_policy_overrides (
    scope          TEXT NOT NULL CHECK (scope IN ('global', 'tenant', 'project')),
    org_id         TEXT NOT NULL CHECK ((org_id = '') = (scope = 'global')),
    project_id     TEXT NOT NULL CHECK ((project_id = '') = (scope <> 'project')),
    operation_type TEXT NOT NULL,
    revision       INTEGER NOT NULL,
    document       TEXT NOT NULL,
    digest         TEXT NOT NULL,
    updated_at     INTEGER NOT NULL,
    updated_by     TEXT NOT NULL,
    PRIMARY KEY (scope, org_id, project_id, operation_type)
) STRICT, WITHOUT ROWID;

-- What was decided when an operation was submitted, and by which rules.
CREATE TABLE operation_decisions (
    operation_id TEXT PRIMARY KEY REFERENCES operations,
    document     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
