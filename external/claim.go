package external

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// sight is what a claim has seen of its identity in one statement.
type sight struct {
	rec  *table.Record // nil where there is none
	row  *row          // nil where somebody has inserted it since the statement began
	mine bool          // the row is this claim's
	// began is this machine's clock before the claim was sent, and so before the server's
	// clock was read: the client's idea of its lease ends first.
	began time.Time
}

// claim looks for the identity's record and row, and inserts the row where neither is
// there, together with what the tool writes in Begin. It retries faults of the database
// that pass, within the Deduper's RetryPolicy.
func (x *Tools) claim(ctx context.Context, t *definition, o *ask) (sight, error) {
	retry := x.d.Options().Retry
	unsure := false
	for n := 1; ; n++ {
		seen, open, err := x.tryClaim(ctx, t, o)
		if err == nil {
			return seen, nil
		}
		if wire.SQLState(err) == pgLockNotAvailable { // by a claim that is not committed yet
			return sight{row: &row{Identity: o.Identity, fingerprint: o.fingerprint[:], state: Running}}, nil
		}
		unsure = unsure || open
		passes := dedup.IsTransient(err) || wire.IsConnLost(err)
		if ctx.Err() == nil && passes && n < retry.MaxAttempts && pause(ctx, jitter(retry.BaseDelay, retry.MaxDelay, n)) == nil {
			continue
		}
		switch {
		case unsure: // then its lease has to end
			return sight{}, o.answer(dedup.ErrOutcomeUnknown, err)
		case ctx.Err() == nil && passes:
			return sight{}, o.answer(dedup.ErrAttemptsExhausted, err)
		}
		return sight{}, failed("claiming", errors.Join(context.Cause(ctx), err))
	}
}

const pgLockNotAvailable = "55P03"

// tryClaim claims once. open is true where an error leaves open whether a claim is
// committed.
func (x *Tools) tryClaim(ctx context.Context, t *definition, o *ask) (seen sight, open bool, err error) {
	conn, err := x.pool.Acquire(ctx)
	if err != nil {
		return seen, false, err
	}
	defer conn.Release()
	b := &pgx.Batch{}
	if t.begin != nil {
		b.BeginTx(pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	}
	b.Queue(x.sql.settings)
	b.Queue(x.sql.claim, o.Scope, o.Tool, o.Key, o.fingerprint[:], o.argDigests, o.input, x.opts.Lease)
	if t.begin == nil {
		seen, err = send(ctx, conn, b)
		return seen, err != nil && !wire.IsUnsent(err) && !wire.IsRaised(err), err
	}
	b.Queue(x.sql.unlimit)
	return x.claimInTx(ctx, t, o, conn.Conn(), b)
}

// claimInTx claims in a transaction in which the tool may write.
func (x *Tools) claimInTx(ctx context.Context, t *definition, o *ask, conn *pgx.Conn, b *pgx.Batch) (seen sight, open bool, err error) {
	seen, tx, err := sendBegin(ctx, conn, b)
	if err != nil {
		wire.Rollback(ctx, conn)
		return seen, false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if !seen.mine {
		return seen, false, nil
	}
	if err := t.begin(ctx, tx, []byte(o.input)); err != nil {
		return seen, false, err
	}
	x.event(ctx, dedup.ExternalClaiming, seen.row, "", "")
	err = tx.Commit(ctx)
	return seen, err != nil && !errors.Is(err, pgx.ErrTxCommitRollback) && !wire.IsRaised(err), err
}

// send sends settings and a look in one trip.
func send(ctx context.Context, conn *pgxpool.Conn, b *pgx.Batch) (seen sight, err error) {
	seen.began = time.Now()
	results := conn.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, results.Close()) }()
	if _, err = results.Exec(); err != nil {
		return seen, err
	}
	return seen, seen.scan(results.QueryRow())
}

// sendBegin is send behind a BEGIN in the same trip.
func sendBegin(ctx context.Context, conn *pgx.Conn, b *pgx.Batch) (seen sight, tx pgx.Tx, err error) {
	seen.began = time.Now()
	results := conn.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range 2 { // BEGIN and settings
		if _, err = results.Exec(); err != nil {
			return seen, nil, err
		}
	}
	return seen, results.Tx(), seen.scan(results.QueryRow())
}

// scan reads what the look has found. Both sides of it may be missing.
func (s *sight) scan(from pgx.Row) error {
	var (
		fingerprint, digests           []byte
		outcome, result                *string
		createdAt, expiresAt, forgetAt *time.Time
		now                            time.Time
		mine                           *bool
		scope, tool, key, state        *string
		fence                          *int64
		tries                          *int
		looked                         *bool
		rowCreated, rowChanged         *time.Time
		r                              row
	)
	err := from.Scan(&fingerprint, &digests, &outcome, &result, &createdAt, &expiresAt, &forgetAt, &now, &mine,
		&scope, &tool, &key, &state, &fence, &r.dueAt, &r.sentAt, &r.sentUntil, &tries, &looked,
		&r.fingerprint, &r.argDigests, &r.input, &r.ref, &r.note, &r.twice, &r.verdict, &r.verdictValue,
		&rowCreated, &rowChanged, &r.forgetAt)
	if err != nil {
		return err
	}
	if outcome != nil {
		s.rec = &table.Record{
			Fingerprint: [32]byte(fingerprint), ArgDigests: digests, Outcome: table.Outcome(*outcome), Result: value(result), Tombstone: result == nil,
			CreatedAt: *createdAt, ExpiresAt: *expiresAt, ForgetAt: *forgetAt, SeenAt: now, SentAt: s.began,
		}
	}
	if state != nil {
		r.Scope, r.Tool, r.Key, r.state = *scope, *tool, *key, State(*state)
		r.fence, r.tries, r.looked, r.createdAt, r.changedAt, r.now = *fence, *tries, *looked, *rowCreated, *rowChanged, now
		s.row, s.mine = &r, *mine
	}
	return nil
}

// forget deletes the row of an identity that may be used anew, and reports whether it has.
func (x *Tools) forget(ctx context.Context, r *row) (bool, error) {
	tag, err := x.pool.Exec(ctx, x.sql.forgetOne, r.Scope, r.Tool, r.Key, r.fence)
	return tag.RowsAffected() > 0, failed("forgetting", err)
}
