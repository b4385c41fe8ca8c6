-- What an audit row says beyond the common columns, and the operation that it belongs to. Rows of reports
-- have a key, so that a report which is sent again writes no second one.
ALTER TABLE audit_logs ADD COLUMN operation_id TEXT;
ALTER TABLE audit_logs ADD COLUMN details TEXT;
ALTER TABLE audit_logs ADD COLUMN report_key TEXT;
CREATE UNIQUE INDEX audit_logs_by_report ON audit_logs (report_key) WHERE report_key IS NOT NULL;
CREATE INDEX audit_logs_denials ON audit_logs (operation_id, sequence) WHERE report_key IS NOT NULL;
