-- +goose Up

-- One row per identity (scope, tool, key) of a write tool's call. The row is
-- written in the same transaction as the call's effect, and its primary key
-- decides every race between twins.
--
-- The columns of the identity are COLLATE "C": a text index under any other
-- collation changes its order when the operating system's locale data changes,
-- and a changed order lets a twin in.
--
-- There are no CHECK constraints. Postgres reads the expression of each anew for
-- every INSERT: seven that said what the library holds to anyway were a third of
-- what a call costs the server (measured: 13 of 36 microseconds). What no version
-- of the library has written is refused when it is read.
--
-- A sweep writes each record once more, as a tombstone without its result, and
-- that adds an entry to the primary key. Keys that are ordered by time fill its
-- pages to the fillfactor: the room that is left takes those entries, where
-- full pages would split and stay half empty.
CREATE TABLE tool_dedup (
    scope       text        COLLATE "C" NOT NULL,
    tool        text        COLLATE "C" NOT NULL,
    key         text        COLLATE "C" NOT NULL,
    fingerprint bytea       NOT NULL,
    arg_digests bytea,
    outcome     text        COLLATE "C" NOT NULL,
    result      text,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    forget_at   timestamptz NOT NULL,
    CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key) WITH (fillfactor = 75)
) WITH (
    -- A sweep reads past the dead entries in its index until a vacuum has
    -- removed them: after a fiftieth of the table, and not a fifth.
    autovacuum_vacuum_scale_factor = 0.02,
    -- The room at the table's end is soon wanted again, and to give it back
    -- takes a lock that every call waits for.
    vacuum_truncate = false
);

COMMENT ON TABLE tool_dedup IS 'Write tools that run once: one row per call, written in the transaction of its effect (github.com/tooldedup/dedup).';
COMMENT ON COLUMN tool_dedup.scope IS 'Tenant, client or account of the call. One scope never sees another scope''s rows.';
COMMENT ON COLUMN tool_dedup.tool IS 'Stable name of the tool, chosen by its author.';
COMMENT ON COLUMN tool_dedup.key IS 'Names one intent; the same on every retry of it.';
COMMENT ON COLUMN tool_dedup.fingerprint IS 'SHA-256 of the canonical arguments. The same identity with another fingerprint is refused.';
COMMENT ON COLUMN tool_dedup.arg_digests IS 'A short digest per top-level argument, to name those that differ. Never their values.';
COMMENT ON COLUMN tool_dedup.outcome IS 'done: result is the answer. refused: result is the refusal. broken: the effect ended its own transaction. claimed: only ever visible if a claim was committed behind the library''s back.';
COMMENT ON COLUMN tool_dedup.result IS 'The exact JSON text that every caller gets. NULL once it has expired (a tombstone).';
COMMENT ON COLUMN tool_dedup.created_at IS 'When the record was written, by the database''s clock.';
COMMENT ON COLUMN tool_dedup.expires_at IS 'From here on the result may be dropped; the identity still refuses to run again.';
COMMENT ON COLUMN tool_dedup.forget_at IS 'From here on the row may be deleted and the identity used anew.';

-- The sweep asks which rows are due next: those with a result when it expires,
-- tombstones when they may be forgotten. One index answers both.
CREATE INDEX tool_dedup_due ON tool_dedup ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END));

-- +goose Down

DROP TABLE tool_dedup;
