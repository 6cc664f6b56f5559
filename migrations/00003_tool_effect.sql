-- +goose Up

-- One row for each call of a tool that acts outside of the database, from the moment
-- before anything is sent until its record may be forgotten. Package dedup does not use
-- it, and programs without such tools leave it empty.
--
-- The row is claimed in one transaction and answered in another, together with the
-- record in tool_dedup. Every change of it compares the fence, so that of any number of
-- processes one acts at a time.
CREATE TABLE tool_effect (
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
    -- A row changes two or three times in its first seconds: room on its page keeps the
    -- new versions there.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    vacuum_truncate = false
);

COMMENT ON TABLE tool_effect IS 'Calls of write tools that act outside of the database: one row per call, from before it is sent (github.com/tooldedup/dedup/external).';
COMMENT ON COLUMN tool_effect.scope IS 'Scope, tool and key are those of the call''s record in tool_dedup.';
COMMENT ON COLUMN tool_effect.state IS 'pending: nothing that was sent has an effect or will have one. running: an attempt may be out. parked: it may have happened, and only a person can say. done: the record has the answer.';
COMMENT ON COLUMN tool_effect.fence IS 'Number of the act that may change the row: the database''s clock in microseconds, or one more than the row''s last fence if that is greater. None comes twice.';
COMMENT ON COLUMN tool_effect.due_at IS 'From here on any process may act; of a running row the end of its lease. NULL: nothing is to be done.';
COMMENT ON COLUMN tool_effect.sent_at IS 'When the first attempt began. NULL: certainly nothing was sent.';
COMMENT ON COLUMN tool_effect.sent_until IS 'No attempt sends anything after this. NULL: nothing that was sent may still take effect.';
COMMENT ON COLUMN tool_effect.tries IS 'Attempts and looks since the state last changed: sets the pause before the next.';
COMMENT ON COLUMN tool_effect.looked IS 'Whether a look-up that found nothing was relied on; a later one checks it.';
COMMENT ON COLUMN tool_effect.keyless IS 'Whether an attempt that may have an effect went out without the provider''s key: the key does not keep a further one from being a second effect.';
COMMENT ON COLUMN tool_effect.unmarked IS 'Whether such an attempt was made by a tool without Find: a look-up that finds nothing does not speak of it.';
COMMENT ON COLUMN tool_effect.confirmed IS 'Whether the provider has said that it has an effect of the key: it is looked for, and nothing is sent again.';
COMMENT ON COLUMN tool_effect.fingerprint IS 'That of the record, which is written from here: the arguments may be encoded in another way by then.';
COMMENT ON COLUMN tool_effect.arg_digests IS 'Those of the record.';
COMMENT ON COLUMN tool_effect.input IS 'The tool''s input as JSON; NULL once it is of no more use.';
COMMENT ON COLUMN tool_effect.ref IS 'The provider''s id of what happened.';
COMMENT ON COLUMN tool_effect.note IS 'Why the row was last parked or put off; of a verdict who has given it, and why.';
COMMENT ON COLUMN tool_effect.twice IS 'The provider''s ids of further effects. Not NULL: somebody has to look.';
COMMENT ON COLUMN tool_effect.verdict IS 'What a person has said, or an attempt has found out and could not record, until a process has carried it out: happened, never or refuse.';
COMMENT ON COLUMN tool_effect.verdict_value IS 'The verdict''s result or reason.';
COMMENT ON COLUMN tool_effect.created_at IS 'When the row was written, by the database''s clock.';
COMMENT ON COLUMN tool_effect.changed_at IS 'When it last changed; of a parked row, when it was parked or got its verdict.';
COMMENT ON COLUMN tool_effect.forget_at IS 'A day after the record''s. From here on the row may be deleted. NULL until it is done.';

CREATE INDEX tool_effect_due ON tool_effect (tool, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX tool_effect_attention ON tool_effect (changed_at) WHERE state = 'parked' OR twice IS NOT NULL;

CREATE INDEX tool_effect_forget ON tool_effect (forget_at) WHERE forget_at IS NOT NULL;

-- +goose Down

DROP TABLE tool_effect;
