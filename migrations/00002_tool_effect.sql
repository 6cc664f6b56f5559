-- +goose Up

-- This file can be applied again, like the one before.

-- tool_effect has one row per call of a tool that acts outside the database. Package external
-- inserts the row before the tool sends anything and deletes it a day after the call's record.
-- Package dedup does not use the table.
--
-- One transaction inserts the row. Another writes the answer to it, together with the record in
-- tool_dedup. Every UPDATE compares and changes the fence, so only one process acts at a time.
CREATE TABLE IF NOT EXISTS tool_effect (
    scope         text        COLLATE "C" NOT NULL,
    tool          text        COLLATE "C" NOT NULL,
    key           text        COLLATE "C" NOT NULL,
    state         text        COLLATE "C" NOT NULL,
    fence         bigint      NOT NULL,
    due_at        timestamptz,
    sent_at       timestamptz,
    sent_until    timestamptz,
    tries         integer     NOT NULL,
    looked        boolean     NOT NULL,
    keyless       boolean     NOT NULL DEFAULT false,
    unmarked      boolean     NOT NULL DEFAULT false,
    confirmed     boolean     NOT NULL DEFAULT false,
    fingerprint   bytea       NOT NULL,
    arg_digests   bytea,
    input         text,
    ref           text,
    note          text,
    twice         text,
    verdict       text        COLLATE "C",
    verdict_value text,
    created_at    timestamptz NOT NULL,
    changed_at    timestamptz NOT NULL,
    forget_at     timestamptz,
    CONSTRAINT tool_effect_pkey PRIMARY KEY (scope, tool, key) WITH (fillfactor = 75)
) WITH (
    -- A row changes two or three times within seconds. The spare room keeps its new versions on
    -- the same page.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    vacuum_truncate = false
);

COMMENT ON TABLE tool_effect IS 'Calls of write tools that act outside the database: one row per call, inserted before the tool sends anything (github.com/tooldedup/dedup/external).';
COMMENT ON COLUMN tool_effect.scope IS 'Scope, tool and key are the identity of the call, as in tool_dedup.';
COMMENT ON COLUMN tool_effect.tool IS 'See scope.';
COMMENT ON COLUMN tool_effect.key IS 'See scope.';
COMMENT ON COLUMN tool_effect.state IS 'pending: no attempt had an effect or can still have one. running: an attempt may be in progress. parked: the effect may have happened; a person must decide. done: the record in tool_dedup has the answer.';
COMMENT ON COLUMN tool_effect.fence IS 'Changes with every UPDATE: the database''s clock in microseconds, or the previous fence + 1 if that is greater. Never repeats.';
COMMENT ON COLUMN tool_effect.due_at IS 'When any process may act on the row. While running, the end of the lease. NULL: nothing left to do.';
COMMENT ON COLUMN tool_effect.sent_at IS 'When the first attempt began. NULL: nothing was sent.';
COMMENT ON COLUMN tool_effect.sent_until IS 'No attempt sends anything after this. NULL: no attempt can still take effect.';
COMMENT ON COLUMN tool_effect.tries IS 'Attempts and look-ups since the state last changed. Sets the delay before the next.';
COMMENT ON COLUMN tool_effect.looked IS 'True if a decision relied on a look-up that found nothing. A later look-up checks it.';
COMMENT ON COLUMN tool_effect.keyless IS 'True if an attempt that may have had an effect carried no provider key. The key then does not prevent a second effect.';
COMMENT ON COLUMN tool_effect.unmarked IS 'True if an attempt that may have had an effect was made by a tool without Find. A look-up that finds nothing then proves nothing.';
COMMENT ON COLUMN tool_effect.confirmed IS 'True if the provider reported that an effect with this key exists. Nothing is sent again; look-ups continue.';
COMMENT ON COLUMN tool_effect.fingerprint IS 'The fingerprint for the record. Stored here because a later release may encode the arguments differently. Zero bytes if the row was erased.';
COMMENT ON COLUMN tool_effect.arg_digests IS 'The arg_digests for the record.';
COMMENT ON COLUMN tool_effect.input IS 'The tool''s input as JSON. NULL when no attempt or look-up needs it any more.';
COMMENT ON COLUMN tool_effect.ref IS 'The provider''s id of the effect.';
COMMENT ON COLUMN tool_effect.note IS 'Why the row was last parked or postponed. With a verdict, the person who gave it and the reason.';
COMMENT ON COLUMN tool_effect.twice IS 'The provider''s ids of further effects. Not NULL: a person must look.';
COMMENT ON COLUMN tool_effect.verdict IS 'happened, never or refuse: a person''s decision, or the outcome of an attempt that could not be recorded. NULL once a process has carried it out.';
COMMENT ON COLUMN tool_effect.verdict_value IS 'The result or the reason of the verdict.';
COMMENT ON COLUMN tool_effect.created_at IS 'When the row was inserted, by the database''s clock.';
COMMENT ON COLUMN tool_effect.changed_at IS 'When the row last changed. For a parked row, when it was parked or got its verdict.';
COMMENT ON COLUMN tool_effect.forget_at IS 'When the row may be deleted: a day after the record''s forget_at. NULL until it is done.';

CREATE INDEX IF NOT EXISTS tool_effect_due ON tool_effect (tool, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX IF NOT EXISTS tool_effect_attention ON tool_effect (changed_at) WHERE state = 'parked' OR twice IS NOT NULL;

CREATE INDEX IF NOT EXISTS tool_effect_forget ON tool_effect (forget_at) WHERE forget_at IS NOT NULL;

-- +goose Down

DROP TABLE tool_effect;
