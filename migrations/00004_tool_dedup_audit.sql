-- +goose Up

-- One row for each thing that was done to a call by hand, and for each broken record. It
-- is written in the transaction or beside the record that it speaks of. No promise rests
-- on it: where it is missing, everything else works.
--
-- The key has no sequence. Logical replication moves rows and no sequences, and a sequence
-- that began anew would refuse the next lines.
CREATE TABLE tool_dedup_audit (
    at         timestamptz NOT NULL,
    id         uuid        NOT NULL DEFAULT gen_random_uuid(),
    actor      text        NOT NULL,
    role       text        NOT NULL,
    action     text        COLLATE "C" NOT NULL,
    scope      text        COLLATE "C" NOT NULL,
    tool       text        COLLATE "C" NOT NULL,
    key        text        COLLATE "C" NOT NULL,
    outcome    text        COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    reason     text        NOT NULL,
    CONSTRAINT tool_dedup_audit_pkey PRIMARY KEY (at, id)
);

COMMENT ON TABLE tool_dedup_audit IS 'What was done to calls by hand, and which records are broken (github.com/tooldedup/dedup).';
COMMENT ON COLUMN tool_dedup_audit.at IS 'When it was done, by the database''s clock.';
COMMENT ON COLUMN tool_dedup_audit.id IS 'Tells rows of one moment apart.';
COMMENT ON COLUMN tool_dedup_audit.actor IS 'Who did it, as the program was told; else the role.';
COMMENT ON COLUMN tool_dedup_audit.role IS 'The session_user.';
COMMENT ON COLUMN tool_dedup_audit.action IS 'reset: a record was freed. broken: an effect ended its own transaction. happened: a broken record was given its result. happened, never, refuse, cleared: a verdict on an operation outside of the database.';
COMMENT ON COLUMN tool_dedup_audit.scope IS 'Scope, tool and key are those of the call''s record in tool_dedup.';
COMMENT ON COLUMN tool_dedup_audit.outcome IS 'The record''s outcome; of a verdict the operation''s state before it.';
COMMENT ON COLUMN tool_dedup_audit.created_at IS 'When the record or the operation was written: names it among those of one key.';
COMMENT ON COLUMN tool_dedup_audit.reason IS 'Why, in the words of who did it; of a broken record the error.';

CREATE INDEX tool_dedup_audit_identity ON tool_dedup_audit (scope, tool, key, at, id);

-- Resets and verdicts are few, and broken records fewer: they are found among them.
CREATE INDEX tool_dedup_audit_broken ON tool_dedup_audit (at, id) WHERE action = 'broken';

-- +goose Down

DROP TABLE tool_dedup_audit;
