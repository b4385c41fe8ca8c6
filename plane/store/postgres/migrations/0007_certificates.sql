-- Nodes have certificates. `nodes.secret_hash` of one that has is the hash of its public key.
ALTER TABLE nodes ADD COLUMN certificate_serial TEXT COLLATE "C";
ALTER TABLE nodes ADD COLUMN certificate_authority TEXT COLLATE "C";
ALTER TABLE nodes ADD COLUMN certificate_expires_at BIGINT;
ALTER TABLE nodes ADD COLUMN revoked_at BIGINT;
-- The key that asked for the last certificate: it counts on, for its holder may not have heard the answer.
ALTER TABLE nodes ADD COLUMN asked_by_hash TEXT COLLATE "C";
-- Labels that came with the join token: the host cannot change them. JSON.
ALTER TABLE nodes ADD COLUMN assigned_labels TEXT COLLATE "C" NOT NULL DEFAULT '{}';
ALTER TABLE join_tokens ADD COLUMN labels TEXT COLLATE "C" NOT NULL DEFAULT '{}';
