-- The digest that links a row with the one before it. Rows of earlier versions have none.
ALTER TABLE audit_logs ADD COLUMN link TEXT;
