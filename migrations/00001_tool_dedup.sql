-- +goose Up

-- This file can be applied again: it makes the tables and indexes that are missing and keeps
-- the others with their rows. `dedup migrate up --recreate` relies on that.

-- tool_dedup has one record per call, named by its identity: scope, tool and key. The record is
-- written in the transaction of the call's effect. The primary key decides a race between twins.
--
-- The identity's columns are COLLATE "C". Under any other collation an update of the operating
-- system's locale data can change the order of the index, and then a second record gets in.
--
-- There are no CHECK constraints: Postgres parses their expressions again for every INSERT.
-- Seven of them took a third of the server's time for a call (measured: 13 of 36 microseconds).
-- The library validates a record before it writes one, and again when it reads one.
--
-- A sweep updates each expired record once, to drop its result, and the update adds an entry to
-- the primary key. Keys ordered by time fill index pages up to the fillfactor, and the spare room
-- holds the added entries. Full pages would split and stay half empty.
CREATE TABLE IF NOT EXISTS tool_dedup (
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
    -- Until a vacuum removes dead index entries, every sweep reads past them. Vacuum when 2% of
    -- the rows are dead; the default is 20%.
    autovacuum_vacuum_scale_factor = 0.02,
    -- New records soon reuse free space at the end of the table. Truncating it would take a lock
    -- that blocks every call.
    vacuum_truncate = false
);

COMMENT ON TABLE tool_dedup IS 'Calls of write tools: one record per call, written in the transaction of its effect (github.com/tooldedup/dedup).';
COMMENT ON COLUMN tool_dedup.scope IS 'Tenant, client or account of the call. Calls of different scopes never share a record.';
COMMENT ON COLUMN tool_dedup.tool IS 'Stable name of the tool.';
COMMENT ON COLUMN tool_dedup.key IS 'Names one intent. Every retry has the same key.';
COMMENT ON COLUMN tool_dedup.fingerprint IS 'SHA-256 of the canonical arguments. A call with the same identity and another fingerprint is refused. Zero bytes if the record was erased.';
COMMENT ON COLUMN tool_dedup.arg_digests IS 'A short digest of each top-level argument, to name those that differ. Contains no values.';
COMMENT ON COLUMN tool_dedup.outcome IS 'done: result is the answer. refused: result is the refusal. broken: the effect ended the transaction itself. claimed: a call in progress; visible only if something outside the library committed it.';
COMMENT ON COLUMN tool_dedup.result IS 'The JSON text that every call of this identity gets. NULL after it expired, or if the answer is not kept.';
COMMENT ON COLUMN tool_dedup.created_at IS 'When the record was written, by the database''s clock.';
COMMENT ON COLUMN tool_dedup.expires_at IS 'When the result may be dropped. The record stays and still prevents a second run. Before created_at if the answer is not kept.';
COMMENT ON COLUMN tool_dedup.forget_at IS 'When the record may be deleted. A later call with this identity runs again.';

-- A record with a result is due for a sweep at expires_at; one without, at forget_at.
CREATE INDEX IF NOT EXISTS tool_dedup_due ON tool_dedup ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END));

-- tool_dedup_audit has one row for each manual change to a call, and one for each broken record.
-- Calls do not need this table.
--
-- The id is random because logical replication does not copy sequences: after a switch to the
-- replica, a sequence would start again at 1 and its values would collide.
CREATE TABLE IF NOT EXISTS tool_dedup_audit (
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

COMMENT ON TABLE tool_dedup_audit IS 'Manual changes to calls, and broken records (github.com/tooldedup/dedup).';
COMMENT ON COLUMN tool_dedup_audit.at IS 'When it happened, by the database''s clock.';
COMMENT ON COLUMN tool_dedup_audit.id IS 'Distinguishes rows of the same microsecond.';
COMMENT ON COLUMN tool_dedup_audit.actor IS 'The person who made the change, as given to the program. The role if none was given.';
COMMENT ON COLUMN tool_dedup_audit.role IS 'The session_user.';
COMMENT ON COLUMN tool_dedup_audit.action IS 'reset: a record was deleted so that its call can run again. broken: an effect ended its transaction itself. happened: a broken record got its result. happened, never, refuse, cleared: a decision about an operation outside the database. erased: a record lost its answer.';
COMMENT ON COLUMN tool_dedup_audit.scope IS 'Scope, tool and key are the identity of the call.';
COMMENT ON COLUMN tool_dedup_audit.tool IS 'See scope.';
COMMENT ON COLUMN tool_dedup_audit.key IS 'See scope.';
COMMENT ON COLUMN tool_dedup_audit.outcome IS 'The record''s outcome before the change. For an operation outside the database, its state before the change.';
COMMENT ON COLUMN tool_dedup_audit.created_at IS 'When the record or operation was written. Distinguishes calls that used one key at different times.';
COMMENT ON COLUMN tool_dedup_audit.reason IS 'The reason the person gave. For a broken record, the error. Empty if it was erased later.';

CREATE INDEX IF NOT EXISTS tool_dedup_audit_identity ON tool_dedup_audit (scope, tool, key, at, id);

-- Lists the broken records without a scan of the table.
CREATE INDEX IF NOT EXISTS tool_dedup_audit_broken ON tool_dedup_audit (at, id) WHERE action = 'broken';

-- tool_dedup_stat counts calls by process, tool and outcome. Only a Sweeper with RecordStats
-- writes to it. It sums rows older than an hour into quarters of an hour and deletes rows older
-- than 14 days.
CREATE TABLE IF NOT EXISTS tool_dedup_stat (
    at       timestamptz      NOT NULL,
    instance text             COLLATE "C" NOT NULL,
    tool     text             COLLATE "C" NOT NULL,
    outcome  text             COLLATE "C" NOT NULL,
    calls    bigint           NOT NULL,
    seconds  double precision NOT NULL,
    waited   double precision NOT NULL,
    CONSTRAINT tool_dedup_stat_pkey PRIMARY KEY (at, instance, tool, outcome)
);

COMMENT ON TABLE tool_dedup_stat IS 'Number of calls by process, tool and outcome (github.com/tooldedup/dedup, SweeperOptions.RecordStats).';
COMMENT ON COLUMN tool_dedup_stat.at IS 'When the process wrote the row, by the database''s clock. For a sum, the start of its quarter of an hour.';
COMMENT ON COLUMN tool_dedup_stat.instance IS 'The process: host, pid and a random part. Empty for a sum over all processes.';
COMMENT ON COLUMN tool_dedup_stat.tool IS 'The tool. _other for the tools beyond the number that a process counts by name.';
COMMENT ON COLUMN tool_dedup_stat.outcome IS 'A dedup.Outcome.';
COMMENT ON COLUMN tool_dedup_stat.calls IS 'Number of calls that ended since the process''s previous row.';
COMMENT ON COLUMN tool_dedup_stat.seconds IS 'Total duration of these calls.';
COMMENT ON COLUMN tool_dedup_stat.waited IS 'The part of seconds that these calls waited for twins.';

-- +goose Down

DROP TABLE tool_dedup_stat, tool_dedup_audit, tool_dedup;
