// Package table has the SQL of tool_dedup, which locks, claims, looks up, writes and sweeps
// records, and the stored form of a record. It includes waits for locks inside Postgres, but not
// effects, retries or other waits for twins.
package table

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/wire"
)

// Options determine the statements.
type Options struct {
	Schema string
	Engine examiner.Engine
	// Isolation is the level of the library's own transactions.
	Isolation pgx.TxIsoLevel
	// IdleTimeout is the idle_in_transaction_session_timeout of a transaction.
	IdleTimeout time.Duration
}

// Table is the SQL of one tool_dedup. The texts are made once, so that servers find their prepared
// statements. Every text names the schema of the table and the type of every parameter, because
// simple_protocol and exec modes have no description of the parameters.
type Table struct {
	// Name is the table's name, quoted.
	Name    string
	Profile Profile
	opts    Options

	// The statements that are prepared together: those that a call may need in the library's
	// transaction; in a caller's; those of Begin; those of Begin and of a call behind it.
	usual        []wire.Query
	usualIn      []wire.Query
	usualBegin   []wire.Query
	usualBeginIn []wire.Query

	// begin begins an attempt's transaction, and beginLook the transaction of a look-up.
	begin     wire.Begin
	beginLook wire.Begin
	rollback  wire.Query
	// Commit ends an attempt.
	Commit wire.Query

	// lock tries to take the identity's lock, and sets the library's transaction up.
	lock wire.Query
	// lockCapped tries to take the lock in a caller's transaction, which may have MaxLocks of them.
	lockCapped wire.Query
	// lockWait waits for the lock.
	lockWait wire.Query
	// lockLook tries the lock for a look-up, which releases it at once.
	lockLook wire.Query
	// setUp is lock without the lock. setUpKeep also does the work of lockTimeout.keep. join is setUp
	// for a claim in a caller's transaction.
	setUp, setUpKeep, join wire.Query
	lockTimeout            lockTimeoutSQL
	// primary raises on a standby, whose records may be missing or out of date. It precedes a
	// look-up without a lock. The statements that lock or set up raise too, except for lockWait.
	primary wire.Query

	// lookUp and lookUpAll read records. They and forget use the clock of the statement: now() is
	// as old as the transaction, which may be old if it is a caller's.
	lookUp, lookUpAll wire.Query
	// insert writes the record, or completes the claim if there is one.
	insert, claim wire.Query
	// refused raises unless the table has a given refusal.
	refused wire.Query
	// gate raises if there is a record or a twin in flight. It precedes a Rider.
	gate wire.Query
	// many are lock, gate and insert for the calls of a part of a batch.
	many manySQL
	// forget deletes the record if it may be forgotten.
	forget wire.Query

	reset       resetSQL
	auditBroken string
	sweep       sweepSQL
	stat        statSQL
}

// MaxLocks bounds the advisory locks of one transaction. They use the server's shared lock table,
// which 100,000 exhaust (measured). Further calls take no lock, and the primary key alone decides.
const MaxLocks = 256

// Hex: see Micros.
func Hex(bytes string) string { return "pg_catalog.encode(" + bytes + ", 'hex')" }

// columns returns the columns of a record, in the order of Seen.columns.
func columns(of string) string {
	return strings.Join([]string{
		Hex(of + "fingerprint"), Hex(of + "arg_digests"), of + "outcome", of + "result",
		Micros(of + "created_at"), Micros(of + "expires_at"), Micros(of + "forget_at"), Micros("pg_catalog.statement_timestamp()"),
	}, ", ")
}

// onPrimary is a condition that is true on a primary and raises 25006 on a standby, where functions
// that write raise. A primary does not evaluate the function.
const onPrimary = "\n WHERE CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.txid_current() > 0 ELSE true END"

// Primary is a statement that raises 25006 on a standby. It precedes a look-up and is not part of
// it, because Citus would pass it on.
const Primary = "SELECT 1" + onPrimary

// New makes the statements.
func New(opts Options) *Table {
	name := pgx.Identifier{opts.Schema, "tool_dedup"}.Sanitize()
	settings := opts.settings()
	now := Micros("pg_catalog.now()")
	const fresh = `pg_catalog.current_setting('transaction_isolation') = 'read committed'`
	profile := ProfileOf(opts.Engine)
	limit := newLockTimeoutSQL(profile)
	setUp := func(settings string) wire.Query {
		return wire.NewQuery(`SELECT true, ` + now + `, ` + settings + `, 1::bigint, true` + onPrimary)
	}
	t := &Table{
		Name: name, Profile: profile, opts: opts,

		begin: wire.NewBegin(opts.Isolation), beginLook: wire.NewBegin(pgx.ReadCommitted),
		rollback: wire.NewQuery("rollback"), Commit: wire.NewQuery("commit"),

		lock:     wire.NewQuery(`SELECT pg_catalog.pg_try_advisory_xact_lock($1::bigint), ` + now + `, ` + settings + `, 1::bigint, true` + onPrimary),
		lockWait: wire.NewQuery(`SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)`),
		lockCapped: wire.NewQuery(fmt.Sprintf(`SELECT CASE WHEN held.n < %d THEN pg_catalog.pg_try_advisory_xact_lock($1::bigint) ELSE true END, `+now+`,
       pg_catalog.set_config('tool_dedup.locks', (held.n + 1)::text, true), held.n + 1, `+fresh+`
  FROM (SELECT COALESCE(NULLIF(pg_catalog.current_setting('tool_dedup.locks', true), ''), '0')::bigint AS n) held`+onPrimary, MaxLocks)),
		// Shared, so that two look-ups do not take each other for a twin.
		lockLook:    wire.NewQuery(`SELECT pg_catalog.pg_try_advisory_xact_lock_shared($1::bigint), ` + now + onPrimary),
		setUp:       setUp(settings),
		setUpKeep:   setUp("concat(" + settings + limit.kept + ")"),
		join:        wire.NewQuery(`SELECT true, ` + now + `, '', 1::bigint, ` + fresh + onPrimary),
		primary:     wire.NewQuery(Primary),
		lockTimeout: limit,

		lookUp: wire.NewQuery(fmt.Sprintf(`SELECT %s
  FROM %s
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text`, columns(""), name)),
		lookUpAll: wire.NewQuery(fmt.Sprintf(`SELECT wanted.n, %s
  FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted (scope, tool, key, n)
  JOIN %s AS r ON r.scope = wanted.scope AND r.tool = wanted.tool AND r.key = wanted.key%s`, columns("r."), name, profile.ofScopes("r.", "$1"))),

		insert: wire.NewQuery(writes(name, "")),
		claim: wire.NewQuery(fmt.Sprintf(`INSERT INTO %s %s
VALUES ($1::text, $2::text, $3::text, $4::bytea, $5::bytea, 'claimed', NULL, %s)
ON CONFLICT DO NOTHING`, name, insertColumns, times("$6", "$7"))),
		forget: wire.NewQuery(fmt.Sprintf(`DELETE FROM %s
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text AND forget_at <= pg_catalog.statement_timestamp()`, name)),
		refused: wire.Query{Text: fmt.Sprintf(`SELECT 1 / count(*)
  FROM %s
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text AND outcome = 'refused' AND created_at = $4::timestamptz`, name)},
		gate: wire.NewQuery(gate("NOT pg_catalog.pg_try_advisory_xact_lock($4::bigint)", fmt.Sprintf("SELECT FROM %s WHERE scope = $1::text AND tool = $2::text AND key = $3::text", name))),
		many: manySQL{
			lock: wire.NewQuery(`SELECT ` + now + `, ` + settings + `, COALESCE((SELECT string_agg(wanted.n::text, ' ') FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (lock, n) WHERE NOT pg_catalog.pg_try_advisory_xact_lock(wanted.lock)), '')` + onPrimary),
			gate: wire.NewQuery(gate("EXISTS (SELECT FROM unnest($4::bigint[]) AS wanted (lock) WHERE NOT pg_catalog.pg_try_advisory_xact_lock(wanted.lock))",
				fmt.Sprintf(`SELECT FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted (scope, tool, key)
                           JOIN %s AS r ON r.scope = wanted.scope AND r.tool = wanted.tool AND r.key = wanted.key`, name))),
			insert: wire.NewQuery(writesMany(name)),
		},
		reset:       newResetSQL(opts.Schema, name),
		auditBroken: auditBroken(opts.Schema, name),
		sweep:       newSweepSQL(name, &opts, profile),
		stat:        newStatSQL(opts.Schema),
	}
	if profile.Claims {
		// Not an UPDATE: without a claim it would not raise, and the COMMIT behind it would commit
		// an effect without its record. Nor does it overwrite another outcome, if the claim was
		// deleted meanwhile: then the division raises, for the same reason.
		t.insert = wire.NewQuery(writes(name, `
ON CONFLICT (scope, tool, key) DO UPDATE
   SET outcome = EXCLUDED.outcome, result = EXCLUDED.result,
       created_at = EXCLUDED.created_at, expires_at = EXCLUDED.expires_at, forget_at = EXCLUDED.forget_at
 WHERE held.outcome = 'claimed' OR 1 / (held.outcome = 'claimed')::int = 0`))
		t.usual = append(t.lockTimeout.usual(), t.begin.Query, t.setUpKeep, t.claim, t.primary, t.lookUp, t.insert, t.Commit)
		t.usualIn = append(t.lockTimeout.usual(), t.join, t.claim, t.lookUp, t.insert)
	} else {
		t.usual = wire.Distinct([]wire.Query{t.begin.Query, t.lock, t.primary, t.lookUp, t.gate, t.insert, t.Commit, t.beginLook.Query, t.lockLook, t.rollback})
		t.usualIn = append(t.lockTimeout.usual(), t.lockCapped, t.lookUp, t.insert)
	}
	t.usualBegin = []wire.Query{t.begin.Query, t.setUp}
	t.usualBeginIn = append(t.usualBegin[:2:2], t.usualIn...)
	return t
}

// settings returns the settings of a library's transaction as SQL for a statement that is sent
// anyway. The CASE keeps a stricter level such as remote_apply: with synchronous_commit off, a
// crash of the server would lose answered calls (measured: 19 of 3,154).
func (o *Options) settings() string {
	durable := "CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN " + setLocal("synchronous_commit", "on") + " END"
	return "concat('',\n              " + strings.Join(append(o.idleTimeout(), durable), ",\n              ") + ")"
}

func (o *Options) idleTimeout() []string {
	limit := millis(o.IdleTimeout)
	return []string{
		setLocal("idle_in_transaction_session_timeout", limit),
		// During a statement the server checks its client only with this setting. Servers before 14
		// lack it, and servers on some platforms raise.
		"CASE WHEN pg_catalog.current_setting('client_connection_check_interval', true) = '0' AND pg_catalog.version() LIKE 'PostgreSQL%-linux%' THEN " +
			setLocal("client_connection_check_interval", limit) + " END",
	}
}
