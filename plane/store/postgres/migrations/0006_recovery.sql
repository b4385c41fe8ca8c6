-- What became of a step whose end nobody saw: a `Settlement` as JSON.
ALTER TABLE operation_steps ADD COLUMN settlement TEXT;
-- Of a task that only asks: which steps, and whether the task before it was canceled. JSON.
ALTER TABLE tasks ADD COLUMN inquiry TEXT;
-- Leases of the task that ended before it did.
ALTER TABLE tasks ADD COLUMN lost_leases BIGINT NOT NULL DEFAULT 0;
