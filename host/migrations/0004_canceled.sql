-- Whether the operation was canceled: after a crash nothing is done again that should end.
ALTER TABLE tasks ADD COLUMN canceled INTEGER NOT NULL DEFAULT 0;
