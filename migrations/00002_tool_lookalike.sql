-- +goose Up

-- One row for each call of a tool whose guard looks for calls that equal an
-- earlier one but for their key. Nothing of dedup's promise rests on it, and
-- programs without such tools leave it empty.
--
-- A row is written in its call's own transaction, which removes a few that have
-- served their time: there is nothing to sweep.
CREATE TABLE tool_lookalike (
    likeness    bytea       NOT NULL,
    key         text        COLLATE "C" NOT NULL,
    at          timestamptz NOT NULL,
    until       timestamptz NOT NULL,
    earlier_key text        COLLATE "C",
    earlier_at  timestamptz,
    CONSTRAINT tool_lookalike_pkey PRIMARY KEY (likeness, key)
);

COMMENT ON TABLE tool_lookalike IS 'Calls of tools that are guarded from models that mint a new key for what they did already (github.com/tooldedup/dedup/tool).';
COMMENT ON COLUMN tool_lookalike.likeness IS 'SHA-256 of scope, session, tool and fingerprint.';
COMMENT ON COLUMN tool_lookalike.key IS 'The call''s key, by which its record in tool_dedup is found.';
COMMENT ON COLUMN tool_lookalike.at IS 'When the call ran.';
COMMENT ON COLUMN tool_lookalike.until IS 'From here on the row says nothing and may be deleted.';
COMMENT ON COLUMN tool_lookalike.earlier_key IS 'Key of the latest equal call before this one, for the mark on replays. NULL if there was none.';
COMMENT ON COLUMN tool_lookalike.earlier_at IS 'When that one ran.';

-- The latest of many equal calls is found without reading the others.
CREATE INDEX tool_lookalike_latest ON tool_lookalike (likeness, at);

CREATE INDEX tool_lookalike_until ON tool_lookalike (until);

-- +goose Down

DROP TABLE tool_lookalike;
