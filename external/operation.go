package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// State is the state of an operation.
type State string

const (
	StateNone    State = ""        // the operation does not exist, or is forgotten
	StatePending State = "pending" // no attempt has or will have an effect
	StateRunning State = "running" // an attempt may be on its way or may have taken effect
	StateParked  State = "parked"  // the effect may have happened; an operator must decide
	StateDone    State = "done"    // the record in tool_dedup has the answer, which may be a refusal

	// Only [Status] has these two states, because it also reads the record.
	StateRefused State = "refused" // the effect did not happen and never will
	StateExpired State = "expired" // the operation was answered, and the answer is no longer kept
)

// Operation describes one call's effect. It does not contain the input.
type Operation struct {
	Scope, Tool, Key string
	State            State
	// Fence changes with every act. [Tools.Resolve] compares it.
	Fence int64
	// ProviderKey is the Key in each [Attempt].
	ProviderKey string
	// Due is when a process may next act, zero if nothing is left to do.
	Due time.Time
	// SentAt is when the first attempt began, zero if nothing was sent.
	SentAt time.Time
	// Ref is the provider's id of the effect. Twice has the ids of further effects, separated by
	// spaces; "(none)" stands for one of a tool without Ref.
	Ref, Twice string
	// Note is why the operation was last parked or postponed. If there is a Verdict, it is the
	// actor and the reason of the verdict.
	Note string
	// Verdict is "happened", "never" or "refuse" until a process has carried the verdict out. It is
	// either an operator's, or the outcome of an attempt that could not be recorded.
	Verdict string
	// CreatedAt is when the operation was created. ChangedAt is when an act last changed it; for a
	// parked operation, when it was parked or got its verdict. Now is when it was read. All are by
	// the database's clock.
	CreatedAt, ChangedAt, Now time.Time
}

// lookup reads an operation. StateNone means that nothing was sent, or that the operation is
// forgotten.
func (x *Tools) lookup(ctx context.Context, id table.Identity) (Operation, *row, error) {
	r, err := x.read(ctx, id)
	if err != nil || r == nil {
		return none(id), nil, wrap("looking up", err)
	}
	return r.operation(), r, nil
}

// none returns the Operation of an identity without a row.
func none(id table.Identity) Operation {
	return Operation{Scope: id.Scope, Tool: id.Tool, Key: id.Key, ProviderKey: providerKey(id.Scope, id.Tool, id.Key)}
}

// row is a row of tool_effect as one statement read it.
type row struct {
	table.Identity
	state                    State
	fence                    int64
	dueAt, sentAt, sentUntil *time.Time
	tries                    int
	looked                   bool
	keyless, unmarked        bool
	confirmed                bool
	fingerprint, argDigests  []byte
	input, ref, note, twice  *string
	verdict, verdictValue    *string
	createdAt, changedAt     time.Time
	forgetAt                 *time.Time
	now                      time.Time // the database's clock
}

// fields returns the scan targets of the columns, in the order of shown.
func (r *row) fields() []any {
	return []any{
		&r.Scope, &r.Tool, &r.Key, (*string)(&r.state), &r.fence,
		wire.MaybeTimes(&r.dueAt), wire.MaybeTimes(&r.sentAt), wire.MaybeTimes(&r.sentUntil), &r.tries, &r.looked,
		&r.keyless, &r.unmarked, &r.confirmed,
		wire.Digits(&r.fingerprint), wire.Digits(&r.argDigests), &r.input, &r.ref, &r.note, &r.twice, &r.verdict, &r.verdictValue,
		wire.Times(&r.createdAt), wire.Times(&r.changedAt), wire.MaybeTimes(&r.forgetAt), wire.Times(&r.now),
	}
}

// due reports whether a process may act now.
func (r *row) due() bool { return r.dueAt != nil && !r.now.Before(*r.dueAt) }

// accepts is [table.Record.Accepts] for the row.
func (r *row) accepts(fingerprint [32]byte) bool {
	stored, err := digest(r.fingerprint)
	rec := table.Record{Fingerprint: stored}
	return err == nil && rec.Accepts(fingerprint)
}

// digest returns a stored fingerprint.
func digest(stored []byte) (d [32]byte, err error) {
	if len(stored) != len(d) {
		return d, fmt.Errorf("dedup: a fingerprint has %d bytes; another version of the library wrote it", len(stored))
	}
	return [32]byte(stored), nil
}

func (r *row) in() json.RawMessage {
	if r.input == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(*r.input)
}

func (r *row) attempt() Attempt {
	return Attempt{Key: providerKey(r.Scope, r.Tool, r.Key), Scope: r.Scope, CallKey: r.Key}
}

// call returns the dedup.Call that records the operation's answer.
func (r *row) call(t *definition) dedup.Call {
	return dedup.Call{Scope: r.Scope, Tool: r.Tool, Key: r.Key, Retention: t.Retention, MaxWait: forever}
}

// known returns a context that gives that call the digests of the stored input.
func (r *row) known(ctx context.Context) (context.Context, error) {
	fingerprint, err := digest(r.fingerprint)
	return table.WithKnown(ctx, table.Known{Identity: r.Identity, Fingerprint: fingerprint, ArgDigests: r.argDigests}), err
}

// forever is longer than any wait.
const forever = time.Duration(1<<63 - 1)

func (r *row) operation() Operation {
	op := none(r.Identity)
	op.State, op.Fence, op.Verdict = r.state, r.fence, value(r.verdict)
	op.Due, op.SentAt = value(r.dueAt), value(r.sentAt)
	op.Ref, op.Twice, op.Note = value(r.ref), value(r.twice), value(r.note)
	op.CreatedAt, op.ChangedAt, op.Now = r.createdAt, r.changedAt, r.now
	if isNonce(op.Note) {
		op.Note = ""
	}
	return op
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// read returns the row of an identity, nil if there is none. On a standby, whose rows may be out of
// date, it fails with SQLSTATE 25006.
func (x *Tools) read(ctx context.Context, id table.Identity) (r *row, err error) {
	conn, err := wire.Acquire(ctx, x.pool)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	if err := x.refuseSimple(ctx, conn, conn.Conn().Config()); err != nil {
		return nil, err
	}
	b := &pgx.Batch{}
	b.Queue(table.Primary)
	b.Queue(x.sql.read, id.Scope, id.Tool, id.Key)
	results := conn.SendBatch(ctx, b)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	if _, err = results.Exec(); err != nil {
		return nil, err
	}
	return one(collect(results.Query()))
}

func one(rows []*row, err error) (*row, error) {
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// rows runs a statement that returns whole rows. A statement that changes rows is its own
// transaction.
func (x *Tools) rows(ctx context.Context, sql string, args ...any) ([]*row, error) {
	conn, err := wire.Acquire(ctx, x.pool)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	defer wire.ShieldCommit(conn.Conn())()
	return collect(conn.Query(ctx, sql, args...))
}

func collect(rows pgx.Rows, err error) ([]*row, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(s pgx.CollectableRow) (*row, error) {
		r := &row{}
		return r, s.Scan(r.fields()...)
	})
}

// wrap prefixes an error of the database with the action that failed.
func wrap(what string, err error) error {
	if err == nil || errors.Is(err, dedup.ErrInvalid) {
		return err
	}
	return fmt.Errorf("dedup: %s: %w", what, err)
}
