-- Nodes have certificates. `nodes.secret_hash` of one that has is the hash of its public key.
ALTER TABLE nodes ADD COLUMN certificate_serial TEXT;
ALTER TABLE nodes ADD COLUMN certificate_authority TEXT;
ALTER TABLE nodes ADD COLUMN certificate_expires_at INTEGER;
ALTER TABLE nodes ADD COLUMN revoked_at INTEGER;
-- The key that asked for the last certificate: it counts on, for its holder may not have heard the answer.
ALTER TABLE nodes ADD COLUMN asked_by_hash TEXT;
-- Labels that came with the join token: the host cannot change them. JSON.
ALTER TABLE nodes ADD COLUMN assigned_labels TEXT NOT NULL DEFAULT '{}';
ALTER TABLE join_tokens ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
