-- What could be used so far had been published.
UPDATE operation_definition_versions SET status = 'published' WHERE status = 'active';
