-- The secret that a token had before, for as long as it still opens what the token opens.
ALTER TABLE tokens ADD COLUMN previous_hash TEXT COLLATE "C";
ALTER TABLE tokens ADD COLUMN previous_until BIGINT;
CREATE UNIQUE INDEX tokens_by_previous_hash ON tokens (previous_hash) WHERE previous_hash IS NOT NULL;
-- When it was used last, give or take a minute.
ALTER TABLE tokens ADD COLUMN used_at BIGINT;
