package external

import (
	"context"
	"crypto/rand"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/examiner"
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

// ended reports whether the operation has an answer whose record is gone. Then the identity may be used anew, when
// its row may be forgotten.
func (s *sight) ended() bool {
	return s.row != nil && s.row.state == Done && (s.rec == nil || s.rec.Forgotten()) // both were read at once
}

// claim looks for the identity's record and row, and inserts the row where neither is
// there. It retries transient faults within the Deduper's RetryPolicy. A claim whose answer was lost is known
// again by its nonce, which the row has as its note until somebody acts on it: by a later claim of the same call
// too, since it may be committed late.
//
// A claim gives up soon where it waits for a lock, and its connection goes back. A lock of a twin says that it is in
// flight. Another one, such as that of CREATE INDEX or of the table's growth, is a passing fault: each further try
// waits twice as long for it, so that a slow machine gets through.
//
// In the model: the claim in worker.pml.
func (x *Tools) claim(ctx context.Context, o *ask) (sight, error) {
	retry := x.d.Options().Retry
	began, limit := x.now(), table.RowTimeout
	for n := 1; ; n, limit = n+1, min(2*limit, longestClaim) {
		tried := x.now()
		seen, err := x.tryClaim(ctx, o, limit)
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
		if o.lostSince.IsZero() && (seen.unsure || !wire.IsRaised(err) && !wire.IsUnsent(err) && !errors.As(err, new(*pgconn.ConnectError))) {
			o.lostSince = began
		}
		switch {
		case x.metTwin(err):
			return sight{row: &row{Identity: o.Identity, fingerprint: o.fingerprint[:], state: Running}}, nil
		case ctx.Err() != nil, !dedup.IsTransient(err) && !wire.IsConnLost(err):
			return sight{}, o.unclaimed(nil, n, err)
		case n >= retry.MaxAttempts:
			return sight{}, o.unclaimed(dedup.ErrAttemptsExhausted, n, err)
		}
		if err := pause(ctx, jitter(retry.BaseDelay, retry.MaxDelay, n)); err != nil {
			return sight{}, o.unclaimed(nil, n, err)
		}
	}
}

// longestClaim is the longest that a claim waits for a lock with a connection in its hands.
const longestClaim = 250 * time.Millisecond

// unclaimed is the answer of a call that could not claim its identity.
func (o *ask) unclaimed(answer error, attempts int, err error) error {
	if !o.lostSince.IsZero() { // a claim may be committed, and its lease has to end
		answer = dedup.ErrOutcomeUnknown
	}
	if answer == nil {
		return failed("claiming", err)
	}
	return &dedup.Error{Answer: answer, Scope: o.Scope, Tool: o.Tool, KeyHash: dedup.KeyHash(o.Key), Attempts: attempts, Err: err}
}

// nonceNote is the beginning of a row's note which is its claim's nonce.
const nonceNote = "claim "

func newNonce() string { return nonceNote + rand.Text() }

func isNonce(note string) bool {
	text, ok := strings.CutPrefix(note, nonceNote)
	return ok && len(text) == len(rand.Text())
}

// metTwin reports whether a claim gave up waiting for one of the same identity that is not
// committed yet. Where it waited for another lock, such as that of CREATE INDEX or of the
// table's growth, the server names no tuple, and nobody need have the identity. A worker of
// Citus does not pass on what it waited for.
func (x *Tools) metTwin(err error) bool {
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || server.Code != wire.CodeLockNotAvailable {
		return false
	}
	profile := x.profile.Load()
	return profile != nil && profile.Spread || tupleID.MatchString(server.Where)
}

// tupleID is the place of a tuple as errors have it, in every language.
var tupleID = regexp.MustCompile(`\(\d+,\d+\)`)

// bounded is a batch of a claim, which waits for locks for at most limit, behind a statement that begins, where that
// is not empty. So many answers come before that of the claim.
//
// On Citus the limit is a SET LOCAL, which is passed on to other nodes. There the simple protocol is refused: the
// statements of a trip are one text in it, which is passed on as a whole, the claim included.
func (x *Tools) bounded(
	ctx context.Context, on examiner.Querier, config *pgx.ConnConfig, limit time.Duration, begin, claim string, args ...any,
) (b *pgx.Batch, before int, err error) {
	profile, err := x.engine(ctx, on)
	if err != nil {
		return nil, 0, err
	}
	if profile.Spread && config.DefaultQueryExecMode == pgx.QueryExecModeSimpleProtocol {
		return nil, 0, &dedup.InvalidError{
			What: "option", Field: "pool",
			Reason: "has QueryExecModeSimpleProtocol, which package external cannot use on Citus; QueryExecModeExec prepares nothing either",
		}
	}
	set, reset := table.Limit(*profile, limit)
	b = &pgx.Batch{}
	for _, sql := range append([]string{begin}, set...) {
		b.Queue(sql)
	}
	b.Queue(claim, args...)
	for _, sql := range reset {
		b.Queue(sql)
	}
	return b, 1 + len(set), nil
}

// tryClaim claims in a transaction that is one trip. Where its limit is for a transaction block, COMMIT is one more.
func (x *Tools) tryClaim(ctx context.Context, o *ask, limit time.Duration) (seen sight, err error) {
	seen.began = time.Now()
	conn, err := wire.Acquire(ctx, x.pool)
	if err != nil {
		return seen, err
	}
	defer conn.Release()
	b, before, err := x.bounded(ctx, conn, conn.Conn().Config(), limit, x.sql.durable, x.sql.claim,
		o.Scope, o.Tool, o.Key, o.fingerprint[:], o.argDigests, o.input, x.opts.Lease, o.nonce, o.keyless, o.unmarked)
	if err != nil {
		return seen, err
	}
	if !x.profile.Load().Spread {
		defer wire.ShieldCommit(conn.Conn())()
		_, err = seen.read(conn.SendBatch(ctx, b), before)
		return seen, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return seen, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err = seen.read(tx.SendBatch(ctx, b), before); err != nil || !seen.mine {
		return seen, err
	}
	outcome, err := wire.CommitTx(ctx, conn.Conn(), tx, x.d.Options().CommitTimeout)
	seen.unsure = outcome == wire.Unknown
	return seen, err
}

// read reads what a look has found, behind so many answers. Record and row may be missing. It returns how many
// answers have come before a failure.
func (s *sight) read(results pgx.BatchResults, before int) (answered int, err error) {
	defer func() { err = errors.Join(err, results.Close()) }()
	for ; answered < before; answered++ {
		if _, err = results.Exec(); err != nil {
			return answered, err
		}
	}
	var (
		rec                            table.Record
		fingerprint                    []byte
		outcome, result                *string
		createdAt, expiresAt, forgetAt *time.Time
	)
	r := &row{}
	fields := []any{
		wire.Digits(&fingerprint), wire.Digits(&rec.ArgDigests), &outcome, &result,
		wire.MaybeTimes(&createdAt), wire.MaybeTimes(&expiresAt), wire.MaybeTimes(&forgetAt), &s.mine,
	}
	if err = results.QueryRow().Scan(append(fields, r.fields()...)...); err != nil {
		return answered, err
	}
	if outcome != nil {
		rec.Fingerprint, rec.Outcome, rec.Result, rec.Tombstone = [32]byte(fingerprint), table.Outcome(*outcome), value(result), result == nil
		rec.CreatedAt, rec.ExpiresAt, rec.ForgetAt = *createdAt, *expiresAt, *forgetAt
		rec.SeenAt = r.now
		s.rec = &rec
	}
	if r.state != None {
		s.row = r
	}
	return answered, nil
}

// forget deletes the row of an identity that may be used anew, and reports whether it has.
func (x *Tools) forget(ctx context.Context, on executor, r *row) (bool, error) {
	tag, err := on.Exec(ctx, x.sql.forgetOne, mine(r)...)
	return tag.RowsAffected() > 0, failed("forgetting", err)
}

// executor is a pool or a connection.
type executor interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}
