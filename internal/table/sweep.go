package table

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/wire"
)

// Span is a span of time in which records fall due, both ends included. A statement gives both
// ends, because with one end alone the planner must guess how many rows lie before it: old
// statistics make it guess half of the table, and it reads the whole table for every batch
// (measured).
type Span struct {
	First, Last pgtype.Timestamptz
	Records     int // those that were due when it was found, without ties at the end
	// Scopes are the scopes of one shard with due records, if rows are spread: one transaction
	// changes one shard. Otherwise nil.
	Scopes []string
}

// shardsAtOnce times the batch size is the number of records that are looked up for the spans of
// all shards, so that each span contains some even if there are many shards.
const shardsAtOnce = 8

// sweepWait bounds how long a batch waits for a lock on the table: a lock of DDL, or of a call
// whose record extends the table, which on a busy server takes longer than RowTimeout. Calls do not
// queue behind the batch, because its lock does not conflict with theirs.
const sweepWait = time.Second

// Beginning is before every due time.
var Beginning = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}

// ErrSweeping: another instance is sweeping. Returned by Drop and BeginSweep.
var ErrSweeping = errors.New("dedup: another instance is sweeping")

// sweepSQL are the statements of sweeps. They skip rows that another transaction has locked.
type sweepSQL struct {
	span, selectDue                string
	prepareSpan                    []string
	prepare, prepareArchive        []string // the transaction
	forget, expire                 string   // what falls due in a span
	forgetArchived, expireArchived string   // those that were archived
}

// SweepLock returns the key of a sweep's advisory lock.
func SweepLock(schema string) int64 { return Identity{Tool: "sweep"}.LockKey(schema) }

func newSweepSQL(table string, opts *Options, profile Profile) sweepSQL {
	// A sweep raises division_by_zero if another sweep is running.
	var alone []string
	if !profile.Claims {
		alone = []string{fmt.Sprintf("1 / pg_catalog.pg_try_advisory_xact_lock(%d)::int", SweepLock(opts.Schema))}
	}
	prepare := func(settings ...string) string {
		return "SELECT " + strings.Join(append(append([]string{"''"}, alone...), settings...), ", ")
	}
	// If a crash of the server undoes a batch, it is swept again.
	prepared := []string{prepare(setLocal("synchronous_commit", "off"), setLocal("lock_timeout", millis(sweepWait)))}
	prepareSpan := []string{"SELECT " + setLocal("lock_timeout", millis(sweepWait))}
	if profile.Spread {
		// Shard by shard: all of them at once would take the workers from the calls.
		prepareSpan = append(prepareSpan, "SELECT "+setLocal("citus.max_adaptive_executor_pool_size", "1"))
		// Settings of SET LOCAL apply to the shard's server too.
		prepared = []string{
			prepare(append(opts.idleTimeout(), setLocal("citus.propagate_set_commands", "local"))...),
			"set local synchronous_commit = off", "set local lock_timeout = " + millis(sweepWait),
		}
	}
	inSpan := func(scopes string) string {
		return examiner.DueExpression + " BETWEEN $1::timestamptz AND $2::timestamptz" + profile.ofScopes("", scopes)
	}
	// Rows of two partitions can have one ctid. The condition occurs twice, so that both sides use
	// the index.
	held := func(rows string) string {
		return fmt.Sprintf("%[2]s\n   AND (tableoid, ctid) IN (SELECT tableoid, ctid FROM %[1]s WHERE %[2]s FOR UPDATE SKIP LOCKED)", table, inSpan("$3")+rows)
	}
	const archivedKeys = `unnest($1::text[], $2::text[], $3::text[]) AS archived (scope, tool, key)`
	const archivedMatch = `t.scope = archived.scope AND t.tool = archived.tool AND t.key = archived.key`
	return sweepSQL{
		span: span(table, profile),
		selectDue: fmt.Sprintf(`SELECT scope, tool, key, %s, outcome, CASE WHEN $3::boolean THEN result END, %s, %s, %s, forget_at <= pg_catalog.now()
  FROM %s
 WHERE %s FOR UPDATE SKIP LOCKED`, Hex("fingerprint"), Micros("created_at"), Micros("expires_at"), Micros("forget_at"), table, inSpan("$4")),
		prepareSpan:    prepareSpan,
		prepare:        prepared,
		prepareArchive: []string{prepare(opts.idleTimeout()...)},
		forgetArchived: fmt.Sprintf(`DELETE FROM %s t USING %s
 WHERE %s AND t.forget_at <= pg_catalog.now()%s`, table, archivedKeys, archivedMatch, profile.ofScopes("t.", "$1")),
		expireArchived: fmt.Sprintf(`UPDATE %s t SET result = NULL, arg_digests = NULL FROM %s
 WHERE %s AND t.result IS NOT NULL AND t.forget_at > pg_catalog.now()%s`, table, archivedKeys, archivedMatch, profile.ofScopes("t.", "$1")),
		forget: fmt.Sprintf(`DELETE FROM %s
 WHERE %s`, table, held(" AND forget_at <= pg_catalog.now()")),
		expire: fmt.Sprintf(`UPDATE %s SET result = NULL, arg_digests = NULL
 WHERE %s`, table, held(" AND result IS NOT NULL AND forget_at > pg_catalog.now()")),
	}
}

// span finds the next records that are due after $1, $2 of them: a row of their span, or one for
// each shard. The inner queries of the second run on the shards. Records that fall due with the
// last are in it, because only the scopes that it finds are swept.
func span(table string, profile Profile) string {
	next := fmt.Sprintf(`
       SELECT %[2]s AS due
         FROM %[1]s
        WHERE %[2]s > $1::timestamptz AND %[2]s <= pg_catalog.now()
        ORDER BY 1
        LIMIT $2::bigint`, table, examiner.DueExpression)
	if !profile.Spread {
		return `SELECT ` + Micros("min(due)") + `, ` + Micros("max(due)") + `, count(*), NULL::text[] FROM (` + next + `) batch`
	}
	return fmt.Sprintf(`WITH batch AS (
SELECT max(due) AS last FROM (`+next+`) next
), found AS (
SELECT scope, min(%[2]s) AS first, max(%[2]s) AS last, count(*) AS records
  FROM %[1]s
 WHERE %[2]s > $1::timestamptz AND %[2]s <= (SELECT last FROM batch)
 GROUP BY scope)
SELECT %[4]s, %[5]s, sum(records)::bigint, array_agg(scope)
  FROM (SELECT found.*, pg_catalog.get_shard_id_for_distribution_column(%[3]s::regclass, scope) AS shard FROM found OFFSET 0) placed
 GROUP BY shard
 ORDER BY 1`, table, examiner.DueExpression, "'"+strings.ReplaceAll(table, "'", "''")+"'", Micros("min(first)"), Micros("max(last)"))
}

// Due finds the spans of the next records that are due after a time, at most size of them: one
// span, or one for each shard if rows are spread. There are none if nothing is due. last is true if
// nothing is due behind them. Due waits for a lock on the table as long as a batch does.
func (t *Table) Due(ctx context.Context, conn *pgx.Conn, after pgtype.Timestamptz, size int) (spans []Span, last bool, err error) {
	if t.Profile.Spread {
		size *= shardsAtOnce
	}
	p := wire.On(conn).LimitedPipeline()
	for _, sql := range t.sweep.prepareSpan {
		p.Ignore(wire.Query{Text: sql})
	}
	var s Span
	var first, final *time.Time // NULL where nothing is due
	records := 0
	if err := p.QueueArgs(wire.Query{Text: t.sweep.span}, []any{after, size}); err != nil {
		return nil, false, err
	}
	p.Send(ctx)
	p.Rows(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{wire.MaybeTimes(&first), wire.MaybeTimes(&final), &s.Records, &s.Scopes}, func() error {
			if s.Records > 0 {
				s.First, s.Last = pgtype.Timestamptz{Time: *first, Valid: true}, pgtype.Timestamptz{Time: *final, Valid: true}
				spans = append(spans, s)
				records += s.Records
			}
			s.Scopes = nil
			return nil
		})
		return err
	})
	err = p.Close()
	return spans, records < size, err
}

// Drop deletes the forgotten records of a span and turns the others into tombstones. It is one
// transaction in one pipeline: the server completes it even if this process ends. Its statements
// are not prepared, because preparing would wait for a lock on the table without a limit, and would
// choose a plan without the span.
//
// It does not work with spread rows: Citus accepts FOR UPDATE only in a separate statement.
func (t *Table) Drop(ctx context.Context, conn *pgx.Conn, s Span) (forgotten, expired int64, err error) {
	span := []any{&s.First.Time, &s.Last.Time}
	p := wire.On(conn).LimitedPipeline()
	p.Ignore(wire.Query{Text: "begin isolation level read committed read write"})
	for _, sql := range t.sweep.prepare {
		p.Ignore(wire.Query{Text: sql})
	}
	p.Queue(wire.Query{Text: t.sweep.forget}, span...)
	p.Queue(wire.Query{Text: t.sweep.expire}, span...)
	p.Ignore(t.Commit)
	p.Send(ctx)
	forgotten = p.Exec().RowsAffected()
	sweeping := p.Failed() && p.Succeeded() <= len(t.sweep.prepare)
	expired = p.Exec().RowsAffected()
	switch err := p.Close(); {
	case err != nil && sweeping:
		return 0, 0, asSweeping(err)
	case err != nil:
		return 0, 0, err
	}
	return forgotten, expired, nil
}

// BeginSweep prepares a transaction for SelectDue and DropHeld.
func (t *Table) BeginSweep(ctx context.Context, tx pgx.Tx, archives bool) error {
	prepare := t.sweep.prepare
	if archives {
		prepare = t.sweep.prepareArchive
	}
	for _, sql := range prepare {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return asSweeping(err)
		}
	}
	return nil
}

// SelectDue locks and returns the rows of a span, except for rows that another transaction has
// locked: scope, tool, key, fingerprint, outcome, the result if it is asked for, the three times,
// and whether the whole record may be deleted.
func (t *Table) SelectDue(ctx context.Context, tx pgx.Tx, s Span, results bool) (pgx.Rows, error) {
	args := []any{s.First, s.Last, results}
	if s.Scopes != nil {
		args = append(args, s.Scopes)
	}
	return tx.Query(ctx, t.sweep.selectDue, args...)
}

// DropHeld is Drop for exactly these identities: other records may have fallen due since they were
// selected.
func (t *Table) DropHeld(ctx context.Context, tx pgx.Tx, scopes, tools, keys []string) (forgotten, expired int64, err error) {
	b := &pgx.Batch{}
	b.Queue(t.sweep.forgetArchived, scopes, tools, keys)
	b.Queue(t.sweep.expireArchived, scopes, tools, keys)
	b.QueuedQueries[0].Exec(func(tag pgconn.CommandTag) error { forgotten = tag.RowsAffected(); return nil })
	b.QueuedQueries[1].Exec(func(tag pgconn.CommandTag) error { expired = tag.RowsAffected(); return nil })
	err = tx.SendBatch(ctx, b).Close()
	return forgotten, expired, err
}

// asSweeping converts the error of another sweep, from the statement that prepares a batch's
// transaction, to ErrSweeping.
func asSweeping(err error) error {
	if wire.SQLState(err) == wire.CodeDivisionByZero {
		return ErrSweeping
	}
	return err
}

func setLocal(name, value string) string {
	return fmt.Sprintf("pg_catalog.set_config('%s', '%s', true)", name, value)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
