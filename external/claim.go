package external

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// claimResult is what one claim statement read and inserted.
type claimResult struct {
	rec      *table.Record // nil if there is none
	row      *row          // nil if a twin inserted it after the statement's snapshot
	inserted bool          // this claim inserted the row
	// unread is why the record or the row cannot be read, nil if both can.
	unread error
	// sent is true if the claim was sent. unsure is true if its COMMIT failed and may be committed.
	sent, unsure bool
	// cancelled is true if the claim failed as [table.CancelledAtLimit] describes.
	cancelled bool
	// began is this machine's clock before the claim was sent. The server reads its clock later, so
	// the lease ends earlier here than by the server's clock.
	began time.Time
}

// ended reports whether the operation is done and its record is gone. Such a row is deleted before
// the identity is used anew.
func (s *claimResult) ended() bool {
	return s.row != nil && s.row.state == StateDone && (s.rec == nil || s.rec.Forgotten()) // one statement read both
}

// claim reads the identity's record and row, and inserts the row if there is neither. It retries
// transient errors within the Deduper's RetryPolicy.
//
// A claim may be committed although its reply was lost. The next claim of the same call recognizes
// it by its nonce, which stays in the row's note until an act changes it. This also works if the
// lost claim commits late.
//
// A claim waits only briefly for a lock, so that its connection is free again. If a twin holds the
// lock, the operation is in flight. Any other lock, such as that of CREATE INDEX, is a transient
// error; each try waits twice as long as the one before.
//
// In the model: the claim in worker.pml.
func (x *Tools) claim(ctx context.Context, c *checkedCall) (claimResult, error) {
	retry := x.d.Options().Retry
	began, limit, cancelled := x.now(), table.RowTimeout, false
	for n := 1; ; n, limit = n+1, min(2*limit, longestClaim) {
		tried := x.now()
		seen, err := x.tryClaim(ctx, c, limit)
		if err == nil && seen.unread != nil {
			return claimResult{}, c.claimError(nil, n, seen.unread)
		}
		if err == nil {
			seen.began = tried
			if r := seen.row; !c.lostSince.IsZero() && r != nil && r.state == StateRunning && r.tries == 1 && value(r.note) == c.nonce {
				seen.inserted, seen.began = true, c.lostSince // an earlier claim committed, and nothing was sent
			}
			if seen.inserted { // an attempt follows, so the old nonce no longer means that nothing was sent
				c.nonce, c.lostSince = newNonce(), time.Time{}
			}
			return seen, nil
		}
		if c.lostSince.IsZero() && (seen.unsure || seen.sent && !wire.IsRaised(err) && !wire.IsUnsent(err)) {
			c.lostSince = began
		}
		switch {
		case seen.cancelled && !cancelled:
			cancelled = true
		case x.blockedByTwin(err):
			return claimResult{row: &row{Identity: c.Identity, fingerprint: c.fingerprint[:], state: StateRunning}}, nil
		case ctx.Err() != nil, !dedup.IsTransient(err) && !wire.IsConnLost(err):
			return claimResult{}, c.claimError(nil, n, err)
		case n >= retry.MaxAttempts:
			return claimResult{}, c.claimError(dedup.ErrAttemptsExhausted, n, err)
		}
		if err := pause(ctx, jitter(retry.BaseDelay, retry.MaxDelay, n)); err != nil {
			return claimResult{}, c.claimError(nil, n, err)
		}
	}
}

// longestClaim is the longest time that a claim waits for a lock while it holds a connection.
const longestClaim = 250 * time.Millisecond

// claimError returns the error of a call that could not claim its identity.
func (c *checkedCall) claimError(answer error, attempts int, err error) error {
	if !c.lostSince.IsZero() { // a claim may be committed, and blocks others until its lease ends
		answer = dedup.ErrOutcomeUnknown
	}
	if answer == nil {
		return wrap("claiming", err)
	}
	return &dedup.Error{Kind: answer, Scope: c.Scope, Tool: c.Tool, KeyHash: dedup.KeyHash(c.Key), Attempts: attempts, Err: err}
}

// nonceNote begins a note that is a claim's nonce.
const nonceNote = "claim "

func newNonce() string { return nonceNote + rand.Text() }

func isNonce(note string) bool {
	text, ok := strings.CutPrefix(note, nonceNote)
	return ok && len(text) == len(rand.Text())
}

// blockedByTwin reports whether a claim gave up waiting for an uncommitted claim of the same
// identity. The error then names a tuple. For any other lock, such as that of CREATE INDEX or of
// extending the table, it names none. A worker of Citus never reports the tuple, so there every
// lock counts as a twin's.
func (x *Tools) blockedByTwin(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || server.Code != wire.CodeLockNotAvailable {
		return false
	}
	profile := x.profile.Load()
	return profile != nil && profile.Spread || tupleID.MatchString(server.Where)
}

// tupleID matches a tuple's position in an error's context, in every language.
var tupleID = regexp.MustCompile(`\(\d+,\d+\)`)

// bounded returns a pipeline of a claim that waits for locks for at most limit. The first statement
// is begin. On Citus the limit is SET LOCAL, which Citus passes on to other nodes. preparing bounds
// how long preparing waits for a lock on the table; 0 sets no bound.
func (x *Tools) bounded(
	ctx context.Context, conn *pgx.Conn, limit, preparing time.Duration, begin string, claim wire.Query, args ...any,
) (*wire.Pipeline, error) {
	if err := x.refuseSimple(ctx, conn, conn.Config()); err != nil {
		return nil, err
	}
	profile, err := x.engine(ctx, conn)
	if err != nil {
		return nil, err
	}
	set, reset := table.Limit(*profile, limit)
	before, after := queries(append([]string{begin}, set...)), queries(reset)
	on := wire.On(conn)
	if err := table.Prepare(ctx, on, preparing, slices.Concat(before, []wire.Query{claim}, after)...); err != nil {
		return nil, err
	}
	p := on.LimitedPipeline()
	for _, q := range before {
		p.Ignore(q)
	}
	err = p.QueueArgs(claim, args)
	for _, q := range after {
		p.Ignore(q)
	}
	return p, err
}

func queries(texts []string) (all []wire.Query) {
	for _, text := range texts {
		all = append(all, wire.NewQuery(text))
	}
	return all
}

// refuseSimple refuses the simple protocol on Citus. It sends all statements of a batch as one
// text, which Citus would pass on as a whole.
func (x *Tools) refuseSimple(ctx context.Context, on examiner.Querier, config *pgx.ConnConfig) error {
	if config.DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol {
		return nil
	}
	profile, err := x.engine(ctx, on)
	if err == nil && profile.Spread {
		err = &dedup.InvalidError{
			What: "option", Field: "pool",
			Reason: "has QueryExecModeSimpleProtocol, which package external cannot use on Citus; QueryExecModeExec prepares nothing either",
		}
	}
	return err
}

// tryClaim claims in one round trip that is its own transaction. On Citus the limit needs a
// transaction block, and COMMIT is another trip.
func (x *Tools) tryClaim(ctx context.Context, c *checkedCall, limit time.Duration) (seen claimResult, err error) {
	seen.began = time.Now()
	conn, err := wire.Acquire(ctx, x.pool)
	if err != nil {
		return seen, err
	}
	defer conn.Release()
	defer func() { wire.DropUnusable(ctx, conn.Conn(), err) }()
	p, err := x.bounded(ctx, conn.Conn(), limit, limit, x.sql.durable, x.sql.claim,
		c.Scope, c.Tool, c.Key, c.fingerprint[:], c.argDigests, c.input, x.opts.Lease, c.nonce, c.keyless, c.unmarked)
	if err != nil {
		return seen, err
	}
	if !x.profile.Load().Spread {
		defer wire.ShieldCommit(conn.Conn())()
		return seen, seen.read(ctx, p, limit)
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return seen, err
	}
	defer wire.Rollback(ctx, conn.Conn()) // after COMMIT it does nothing
	if err = seen.read(ctx, p, limit); err != nil || !seen.inserted {
		return seen, err
	}
	outcome, err := wire.CommitTx(ctx, conn.Conn(), tx, x.d.Options().CommitTimeout)
	seen.unsure = outcome == wire.Unknown
	return seen, err
}

// read sends the pipeline of a claim with its limit, and reads the result.
func (s *claimResult) read(ctx context.Context, p *wire.Pipeline, limit time.Duration) error {
	s.sent = true
	p.Send(ctx)
	p.Rows(func(rows pgx.Rows) error {
		if !rows.Next() {
			return cmp.Or(rows.Err(), pgx.ErrNoRows)
		}
		return s.scan(rows)
	})
	err := p.Close()
	s.cancelled = table.CancelledAtLimit(err, time.Since(p.SentAt), limit)
	return err
}

// scan reads the row of a claim's statement.
func (s *claimResult) scan(from pgx.Row) (err error) {
	var (
		rec                            table.Record
		fingerprint                    []byte
		outcome, result                *string
		createdAt, expiresAt, forgetAt *time.Time
	)
	r := &row{}
	fields := []any{
		wire.Digits(&fingerprint), wire.Digits(&rec.ArgDigests), &outcome, &result,
		wire.MaybeTimes(&createdAt), wire.MaybeTimes(&expiresAt), wire.MaybeTimes(&forgetAt), &s.inserted,
	}
	if err = from.Scan(append(fields, r.fields()...)...); err != nil {
		return err
	}
	if outcome != nil {
		rec.Outcome, rec.Result, rec.Tombstone = table.Outcome(*outcome), value(result), result == nil
		rec.CreatedAt, rec.ExpiresAt, rec.ForgetAt = *createdAt, *expiresAt, *forgetAt
		rec.SeenAt = r.now
		if rec.Fingerprint, err = digest(fingerprint); !rec.Forgotten() {
			s.unread = err
		}
		s.rec = &rec
	}
	if r.state != StateNone {
		s.row = r
		_, err = digest(r.fingerprint)
		s.unread = cmp.Or(s.unread, err)
	}
	return nil
}

// forget deletes the row of an identity that may be used anew, and reports whether it did.
func (x *Tools) forget(ctx context.Context, on executor, r *row) (bool, error) {
	tag, err := on.Exec(ctx, x.sql.forgetOne, byFence(r)...)
	return tag.RowsAffected() > 0, wrap("forgetting", wire.WithPoolUse(x.pool, err))
}

// executor is a pool or a connection.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}
