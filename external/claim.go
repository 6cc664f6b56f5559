package external

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// sight is what a claim has seen of its identity in one statement.
type sight struct {
	rec  *table.Record // nil where there is none
	row  *row          // nil where somebody has inserted it since the statement began
	mine bool          // the row is this claim's
	// unsure: the claim's COMMIT has failed, and may have taken place.
	unsure bool
	// began is this machine's clock before the claim was sent, and so before the server's
	// clock was read: the client's idea of its lease ends first.
	began time.Time
}

// claim looks for the identity's record and row, and inserts the row where neither is
// there, together with what the tool writes in Begin. It retries transient faults within
// the Deduper's RetryPolicy. A claim whose answer was lost is known again by its nonce, which
// the row has as its note until somebody acts on it: by a later claim of the same call too, since it
// may be committed late.
//
// In the model: the claim in worker.pml.
func (x *Tools) claim(ctx context.Context, t *definition, o *ask) (seen sight, err error) {
	retry := x.d.Options().Retry
	n := 1
	began := x.now()
	ended := func(answer, err error) (sight, error) {
		if !o.lostSince.IsZero() { // a claim may be committed, and its lease has to end
			answer = dedup.ErrOutcomeUnknown
		}
		if answer == nil {
			return sight{}, failed("claiming", err)
		}
		return sight{}, &dedup.Error{Answer: answer, Scope: o.Scope, Tool: o.Tool, KeyHash: dedup.KeyHash(o.Key), Attempts: n, Err: err}
	}
	for ; ; n++ {
		tried := x.now()
		seen, err = x.tryClaim(ctx, t, o)
		if err == nil {
			seen.began = tried
			if r := seen.row; !o.lostSince.IsZero() && r != nil && r.state == Running && r.tries == 1 && value(r.note) == o.nonce {
				seen.mine, seen.began = true, o.lostSince // its answer was lost, and nothing has been sent
			}
			if seen.mine { // an attempt follows: from here on the nonce says nothing any more
				o.nonce, o.lostSince = newNonce(), time.Time{}
			}
			return seen, nil
		}
		own, begins := errors.AsType[*beginError](err)
		if begins {
			err = own.err
		} else if o.lostSince.IsZero() && (seen.unsure || !wire.IsRaised(err) && !wire.IsUnsent(err) && !errors.As(err, new(*pgconn.ConnectError))) {
			o.lostSince = began
		}
		switch {
		case !begins && wire.SQLState(err) == pgLockNotAvailable: // by a claim that is not committed yet
			return sight{row: &row{Identity: o.Identity, fingerprint: o.fingerprint[:], state: Running}}, nil
		case ctx.Err() != nil, !dedup.IsTransient(err) && !wire.IsConnLost(err):
			return ended(nil, err)
		case n >= retry.MaxAttempts:
			return ended(dedup.ErrAttemptsExhausted, err)
		}
		if err := pause(ctx, jitter(retry.BaseDelay, retry.MaxDelay, n)); err != nil {
			return ended(nil, err)
		}
	}
}

// nonceNote is the beginning of a row's note which is its claim's nonce.
const nonceNote = "claim "

func newNonce() string { return nonceNote + rand.Text() }

func isNonce(note string) bool {
	text, ok := strings.CutPrefix(note, nonceNote)
	return ok && len(text) == len(rand.Text())
}

// beginError is an error of a tool's Begin, which speaks of no claim.
type beginError struct{ err error }

func (e *beginError) Error() string { return e.err.Error() }

const pgLockNotAvailable = "55P03"

func (x *Tools) tryClaim(ctx context.Context, t *definition, o *ask) (seen sight, err error) {
	if err := x.findEngine(ctx, x.pool); err != nil {
		return seen, err
	}
	sql, b := x.sql(), &pgx.Batch{}
	if sql.block {
		if err := refuseSimpleProtocol(x.pool.Config().ConnConfig); err != nil {
			return seen, err
		}
	}
	inBlock := sql.block || t.begin != nil
	if inBlock {
		b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	}
	queue(b, sql.settings)
	b.Queue(sql.claim, o.Scope, o.Tool, o.Key, o.fingerprint[:], o.argDigests, o.input, x.opts.Lease, o.nonce)
	if !inBlock {
		return send(ctx, x.pool, b, len(sql.settings))
	}
	queue(b, sql.unlimit)
	return x.claimInTx(ctx, t, o, b)
}

// refuseSimpleProtocol refuses the simple protocol where a wait is limited by SET LOCAL on other nodes:
// there the statements of a trip are one text, and Citus passes the whole text on, the claim
// included.
func refuseSimpleProtocol(config *pgx.ConnConfig) error {
	if config.DefaultQueryExecMode != pgx.QueryExecModeSimpleProtocol {
		return nil
	}
	return &dedup.InvalidError{What: "option", Field: "pool", Reason: "has QueryExecModeSimpleProtocol, which package external cannot use on Citus; QueryExecModeExec prepares nothing either"}
}

func queue(b *pgx.Batch, statements []string) {
	for _, sql := range statements {
		b.Queue(sql)
	}
}

// claimInTx claims in a transaction in which the tool may write.
func (x *Tools) claimInTx(ctx context.Context, t *definition, o *ask, b *pgx.Batch) (seen sight, err error) {
	conn, err := x.pool.Acquire(ctx)
	if err != nil {
		return seen, err
	}
	defer conn.Release()
	seen, tx, err := sendBegin(ctx, conn.Conn(), b, len(x.sql().settings))
	if err != nil {
		wire.Rollback(ctx, conn.Conn())
		return seen, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if !seen.mine {
		return seen, nil
	}
	if t.begin != nil {
		if err := t.begin(ctx, tx, []byte(o.input)); err != nil {
			return seen, &beginError{err}
		}
	}
	x.event(ctx, dedup.ExternalClaiming, seen.row, "", "")
	err = tx.Commit(ctx)
	seen.unsure = err != nil && wire.OutcomeOfCommit(conn.Conn().PgConn(), pgconn.CommandTag{}, err, false) == wire.Unknown
	return seen, err
}

// sender is a pool or a transaction.
type sender interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// send sends so many settings and a look in one trip.
func send(ctx context.Context, on sender, b *pgx.Batch, settings int) (seen sight, err error) {
	seen.began = time.Now()
	results := on.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range settings {
		if _, err = results.Exec(); err != nil {
			return seen, err
		}
	}
	return seen, seen.scan(results.QueryRow())
}

// sendBegin is send behind a BEGIN in the same trip.
func sendBegin(ctx context.Context, conn *pgx.Conn, b *pgx.Batch, settings int) (seen sight, tx pgx.Tx, err error) {
	seen.began = time.Now()
	results := conn.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range 1 + settings {
		if _, err = results.Exec(); err != nil {
			return seen, nil, err
		}
	}
	return seen, results.Tx(), seen.scan(results.QueryRow())
}

// scan reads what the look has found. Both sides of it may be missing.
func (s *sight) scan(from pgx.Row) error {
	var (
		rec                            table.Record
		fingerprint                    []byte
		outcome, result                *string
		createdAt, expiresAt, forgetAt *time.Time
	)
	r := &row{}
	fields := []any{&fingerprint, &rec.ArgDigests, &outcome, &result, &createdAt, &expiresAt, &forgetAt, &s.mine}
	if err := from.Scan(append(fields, r.fields()...)...); err != nil {
		return err
	}
	if outcome != nil {
		rec.Fingerprint, rec.Outcome, rec.Result, rec.Tombstone = [32]byte(fingerprint), table.Outcome(*outcome), value(result), result == nil
		rec.CreatedAt, rec.ExpiresAt, rec.ForgetAt = *createdAt, *expiresAt, *forgetAt
		rec.SeenAt, rec.SentAt = r.now, s.began
		s.rec = &rec
	}
	if r.state != None {
		s.row = r
	}
	return nil
}

// forget deletes the row of an identity that may be used anew, and reports whether it has.
func (x *Tools) forget(ctx context.Context, r *row) (bool, error) {
	tag, err := x.pool.Exec(ctx, x.sql().forgetOne, r.Scope, r.Tool, r.Key, r.fence)
	return tag.RowsAffected() > 0, failed("forgetting", err)
}
