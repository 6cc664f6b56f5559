package dedup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// statements are the SQL texts of one Deduper, made once so that pgx's
// statement cache finds them again. Every text names the table's schema, and
// every parameter its type, because simple_protocol and exec modes have no
// description to go by.
type statements struct {
	// table is the table's name, quoted.
	table string
	// usual are the statements that every call of the order in use may need.
	usual []query
	begin begin
	// peekBegin and rollback are around a look: its look-up needs a snapshot that
	// is younger than its lock, whatever isolation level is the session's default.
	peekBegin begin
	rollback  query
	// lock tries the identity's lock and prepares the transaction; lockWait
	// waits for it and lockCapped gives up locking after maxLocksPerTx.
	lock       query
	lockWait   query
	lockCapped query
	// peekLock tries the lock for a look, which gives it back at once.
	peekLock query
	// prepare is lock without a lock, join the same for a caller's transaction.
	// hurry sets a lock_timeout for the statement that follows, unless the
	// session's own is shorter, and unhurry gives that back.
	prepare query
	join    query
	hurry   query
	unhurry query
	// lookup reads the record; see record.read. lookupAll reads those of many
	// identities, each with its number among them. Their clock and that of forget is
	// the statement's: now() is as old as the transaction, and a caller's may be old.
	lookup    query
	lookupAll query
	// tryLocks tries the locks of many identities one after the other, up to so
	// many that are taken, and returns the numbers of those.
	tryLocks query
	// insert writes the record, claim only the identity, complete fills a
	// claim in.
	insert   query
	claim    query
	complete query
	commit   query
	// forget deletes the record if it may be forgotten, forgetAll those of many
	// identities.
	forget    query
	forgetAll query
	// reset deletes the record that was created then, whatever its age.
	reset string
	// sweep*: see sweep_batch.go.
	sweepSpan, sweepSelect                   string
	sweepPrepare, sweepPrepareArchive        string // of the transaction
	sweepForget, sweepExpire                 string // what falls due in a span
	sweepForgetArchived, sweepExpireArchived string // those that were archived
}

// maxLocksPerTx bounds the advisory locks that DoTx takes in one transaction:
// they live in the server's shared lock table, and 100,000 exhaust it
// (measured). Calls beyond it run without, and the primary key decides alone.
const maxLocksPerTx = 256

// claimTimeout is how long a claim, or the DELETE of a record that may be
// forgotten, waits inside Postgres for whoever holds the row before the
// connection is given back.
const claimTimeout = 5 * time.Millisecond

// sweepTimeout is how long a statement of a sweep may take, and so how long a
// call may find a row of its batch locked.
const sweepTimeout = time.Second

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func newStatements(opts *Options) *statements {
	table := pgx.Identifier{opts.Schema, "tool_dedup"}.Sanitize()

	// What every transaction of the library's own needs, in the statement that
	// comes anyway. The conditional keeps a stricter level such as remote_apply.
	local := func(name, value string) string {
		return fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", name, value)
	}
	idle := []string{"''"}
	if opts.IdleTimeout > 0 {
		idle = append(idle, local("idle_in_transaction_session_timeout", millis(opts.IdleTimeout)))
	}
	settings := slices.Clip(idle)
	if !opts.AsyncCommit {
		settings = append(settings, "CASE WHEN pg_catalog.current_setting('synchronous_commit') = 'off' THEN pg_catalog.set_config('synchronous_commit', 'on', true) END")
	}
	prepared := "concat(" + strings.Join(settings, ",\n              ") + ")"

	// The CASE is the tripwire for an effect that ended its own transaction: in
	// any other transaction now() differs, the outcome is NULL and the statement
	// raises, so that the COMMIT behind it in the pipeline is skipped.
	const outcomeInTx = `CASE WHEN pg_catalog.now() = $4::timestamptz THEN $7::text END`
	const columns = `(scope, tool, key, fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at)`
	// statement_timestamp(), not now(): now() is the start of the transaction, and
	// with a slow effect the record would be born old.
	times := func(keep, forget string) string {
		const now = "pg_catalog.statement_timestamp()"
		return fmt.Sprintf("%[1]s, %[1]s + %[2]s::interval, %[1]s + %[3]s::interval", now, keep, forget)
	}
	written := func(onConflict string) string {
		return fmt.Sprintf(`INSERT INTO %s AS held %s
VALUES ($1::text, $2::text, $3::text, $5::bytea, $6::bytea, %s, $8::text, %s)%s
RETURNING created_at`, table, columns, outcomeInTx, times("$9", "$10"), onConflict)
	}

	// A sweep raises division_by_zero where another one is at work.
	var alone []string
	if opts.Order == LockFirst {
		alone = []string{fmt.Sprintf("1 / pg_catalog.pg_try_advisory_xact_lock(%d)::int", sweepLockKey(opts.Schema))}
	}
	alone = slices.Clip(alone)

	sql := &statements{
		table: table,

		begin:    newBegin(opts.Isolation),
		lock:     newQuery(`SELECT pg_catalog.pg_try_advisory_xact_lock($1::bigint), pg_catalog.now(), ` + prepared),
		lockWait: newQuery(`SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)`),
		lockCapped: newQuery(fmt.Sprintf(`SELECT CASE WHEN held.n < %d THEN pg_catalog.pg_try_advisory_xact_lock($1::bigint) ELSE true END, pg_catalog.now(),
       pg_catalog.set_config('tool_dedup.locks', (held.n + 1)::text, true)
  FROM (SELECT COALESCE(NULLIF(pg_catalog.current_setting('tool_dedup.locks', true), ''), '0')::int AS n) held`, maxLocksPerTx)),
		// Shared: those who only look must not take each other for a twin.
		peekLock: newQuery(`SELECT pg_catalog.pg_try_advisory_xact_lock_shared($1::bigint)`),

		prepare: newQuery(`SELECT true, pg_catalog.now(), ` + prepared),
		join:    newQuery(`SELECT true, pg_catalog.now(), ''`),
		hurry: newQuery(`SELECT pg_catalog.set_config('tool_dedup.lock_timeout', pg_catalog.current_setting('lock_timeout'), true),
       pg_catalog.set_config('lock_timeout', ` + shorterTimeout("$1::bigint", "own.max") + `, true)
  FROM (SELECT pg_catalog.current_setting('lock_timeout') AS max) own`),
		unhurry: newQuery(`SELECT pg_catalog.set_config('lock_timeout', pg_catalog.current_setting('tool_dedup.lock_timeout'), true)`),

		lookup: newQuery(fmt.Sprintf(`SELECT fingerprint, arg_digests, outcome, result, created_at, expires_at, forget_at, pg_catalog.statement_timestamp()
  FROM %s
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text`, table)),

		lookupAll: newQuery(fmt.Sprintf(`SELECT wanted.n, r.fingerprint, r.arg_digests, r.outcome, r.result, r.created_at, r.expires_at, r.forget_at, pg_catalog.statement_timestamp()
  FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS wanted (scope, tool, key, n)
  JOIN %s AS r ON r.scope = wanted.scope AND r.tool = wanted.tool AND r.key = wanted.key`, table)),

		// The scan goes by the array's order, and the filter is volatile: so the
		// LIMIT leaves those untried that come behind the last that is wanted.
		tryLocks: newQuery(`SELECT wanted.n
  FROM unnest($1::bigint[]) WITH ORDINALITY AS wanted (lock, n)
 WHERE NOT pg_catalog.pg_try_advisory_xact_lock(wanted.lock)
 LIMIT $2::bigint`),

		insert: newQuery(written("")),
		claim: newQuery(fmt.Sprintf(`INSERT INTO %s %s
VALUES ($1::text, $2::text, $3::text, $4::bytea, $5::bytea, 'claimed', NULL, %s)
ON CONFLICT DO NOTHING`, table, columns, times("$6", "$7"))),
		// Never an UPDATE: one that finds no claim would raise nothing, and the
		// COMMIT behind it would commit an effect without its record. And never
		// over another outcome, should the claim have been lost to somebody's
		// DELETE: then the division raises, for the same reason.
		complete: newQuery(written(`
ON CONFLICT (scope, tool, key) DO UPDATE
   SET outcome = EXCLUDED.outcome, result = EXCLUDED.result,
       created_at = EXCLUDED.created_at, expires_at = EXCLUDED.expires_at, forget_at = EXCLUDED.forget_at
 WHERE held.outcome = 'claimed' OR 1 / (held.outcome = 'claimed')::int = 0`)),

		commit:    newQuery("commit"),
		rollback:  newQuery("rollback"),
		peekBegin: newBegin(pgx.ReadCommitted),

		forget: newQuery(fmt.Sprintf(`DELETE FROM %s
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text AND forget_at <= pg_catalog.statement_timestamp()`, table)),
		forgetAll: newQuery(fmt.Sprintf(`DELETE FROM %s AS r
 USING unnest($1::text[], $2::text[], $3::text[]) AS old (scope, tool, key)
 WHERE r.scope = old.scope AND r.tool = old.tool AND r.key = old.key AND r.forget_at <= pg_catalog.statement_timestamp()`, table)),
		reset: fmt.Sprintf(`DELETE FROM %s
 WHERE scope = $1::text AND tool = $2::text AND key = $3::text AND created_at = $4::timestamptz`, table),

		sweepSpan: fmt.Sprintf(`SELECT min(due), max(due), count(*) FROM (
       SELECT %[2]s AS due
         FROM %[1]s
        WHERE %[2]s > $1::timestamptz AND %[2]s <= pg_catalog.now()
        ORDER BY 1
        LIMIT $2::bigint) batch`, table, dueExpression),
		sweepSelect: fmt.Sprintf(`SELECT scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at, forget_at <= pg_catalog.now()
  FROM %[1]s
 WHERE %[2]s BETWEEN $1::timestamptz AND $2::timestamptz FOR UPDATE SKIP LOCKED`, table, dueExpression),
		// A batch that a crash of the server takes back is swept again.
		sweepPrepare: "SELECT " + strings.Join(append(alone,
			local("synchronous_commit", "off"),
			local("lock_timeout", millis(claimTimeout)),
			local("statement_timeout", millis(sweepTimeout))), ", "),
		sweepPrepareArchive: "SELECT " + strings.Join(append(alone, idle...), ", "),
		sweepForgetArchived: fmt.Sprintf(`DELETE FROM %s t USING %s
 WHERE %s AND t.forget_at <= pg_catalog.now()`, table, archivedKeys, archivedMatch),
		sweepExpireArchived: fmt.Sprintf(`UPDATE %s t SET result = NULL, arg_digests = NULL FROM %s
 WHERE %s AND t.result IS NOT NULL AND t.forget_at > pg_catalog.now()`, table, archivedKeys, archivedMatch),
		sweepForget: fmt.Sprintf(`DELETE FROM %[1]s
 WHERE %[2]s BETWEEN $1::timestamptz AND $2::timestamptz AND forget_at <= pg_catalog.now()`, table, dueExpression),
		sweepExpire: fmt.Sprintf(`UPDATE %[1]s SET result = NULL, arg_digests = NULL
 WHERE %[2]s BETWEEN $1::timestamptz AND $2::timestamptz AND result IS NOT NULL AND forget_at > pg_catalog.now()`, table, dueExpression),
	}
	if opts.Order == ClaimFirst {
		sql.usual = []query{sql.begin.query, sql.prepare, sql.hurry, sql.claim, sql.unhurry, sql.lookup, sql.complete, sql.commit}
	} else {
		sql.usual = distinct([]query{sql.begin.query, sql.lock, sql.lookup, sql.insert, sql.commit, sql.peekLock, sql.peekBegin.query, sql.rollback})
	}
	return sql
}

// dueExpression is the expression of the index tool_dedup_due; the planner
// uses the index only for these very words.
const dueExpression = `(CASE WHEN result IS NULL THEN forget_at ELSE expires_at END)`

const (
	archivedKeys  = `unnest($1::text[], $2::text[], $3::text[]) AS archived (scope, tool, key)`
	archivedMatch = `t.scope = archived.scope AND t.tool = archived.tool AND t.key = archived.key`
)

func sweepLockKey(schema string) int64 {
	return identity{tool: "sweep"}.lockKey(schema)
}
