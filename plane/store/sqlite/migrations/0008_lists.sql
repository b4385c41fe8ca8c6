-- Lists of one status, from any page on.
CREATE INDEX operations_by_status ON operations (project_id, status, operation_id);
