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

// State is where an operation stands.
type State string

const (
	None    State = ""        // there is no such operation, or it is forgotten
	Pending State = "pending" // nothing that was sent has an effect or will have one
	Running State = "running" // an attempt may be out
	Parked  State = "parked"  // it may have happened, and only a person can say
	Done    State = "done"    // the record in tool_dedup has the answer, also where it is a refusal

	// These are of a [Status] alone, which has looked at the record.
	Refused State = "refused" // it did not happen and never will
	Expired State = "expired" // it was answered, and the answer is no longer kept
)

// Operation is what is known of one call's effect. It has nothing of the input.
type Operation struct {
	Scope, Tool, Key string
	State            State
	// Fence changes with every act. [Tools.Resolve] goes by it.
	Fence int64
	// ProviderKey is the Key that attempts are given.
	ProviderKey string
	// Due is when a process may next act, zero where nothing is to be done.
	Due time.Time
	// SentAt is when the first attempt began, zero where certainly nothing was sent.
	SentAt time.Time
	// Ref is the provider's id of what happened, and Twice has the ids of further effects,
	// "(none)" for one of a tool without Ref.
	Ref, Twice string
	// Note says why the operation was last parked or put off. As long as there is a Verdict, it
	// says who has given it, and the reason.
	Note string
	// Verdict is what a person has said, "happened", "never" or "refuse", until a process has
	// carried it out. It is also what an attempt has found out and could not record.
	Verdict string
	// CreatedAt is when it came to be, ChangedAt when somebody last acted on it, of a parked one when it
	// was parked or got its verdict, and Now when it was read, all by the database's clock.
	CreatedAt, ChangedAt, Now time.Time
}

// lookup reads an operation. State None is certain: nothing was sent, unless it has been forgotten since.
func (x *Tools) lookup(ctx context.Context, id table.Identity) (Operation, *row, error) {
	r, err := x.read(ctx, id)
	if err != nil || r == nil {
		return none(id), nil, failed("looking up", err)
	}
	return r.operation(), r, nil
}

// none is an operation of which nothing is known.
func none(id table.Identity) Operation {
	return Operation{Scope: id.Scope, Tool: id.Tool, Key: id.Key, ProviderKey: providerKey(id.Scope, id.Tool, id.Key)}
}

// row is a row of tool_effect, as one statement saw it.
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

// fields are where a row's columns are read to, in the order of shown.
func (r *row) fields() []any {
	return []any{
		&r.Scope, &r.Tool, &r.Key, (*string)(&r.state), &r.fence,
		wire.MaybeTimes(&r.dueAt), wire.MaybeTimes(&r.sentAt), wire.MaybeTimes(&r.sentUntil), &r.tries, &r.looked,
		&r.keyless, &r.unmarked, &r.confirmed,
		wire.Digits(&r.fingerprint), wire.Digits(&r.argDigests), &r.input, &r.ref, &r.note, &r.twice, &r.verdict, &r.verdictValue,
		wire.Times(&r.createdAt), wire.Times(&r.changedAt), wire.MaybeTimes(&r.forgetAt), wire.Times(&r.now),
	}
}

// due reports whether any process may act now.
func (r *row) due() bool { return r.dueAt != nil && !r.now.Before(*r.dueAt) }

func (r *row) in() json.RawMessage {
	if r.input == nil {
		return json.RawMessage("null")
	}
	return json.RawMessage(*r.input)
}

func (r *row) attempt() Attempt {
	return Attempt{Key: providerKey(r.Scope, r.Tool, r.Key), Scope: r.Scope, CallKey: r.Key}
}

// call is the call of the operation's record.
func (r *row) call(t *definition) dedup.Call {
	return dedup.Call{Scope: r.Scope, Tool: r.Tool, Key: r.Key, Retention: t.Retention, MaxWait: forever}
}

// known returns a context in which that call has the digests of the operation's input.
func (r *row) known(ctx context.Context) context.Context {
	return table.WithKnown(ctx, table.Known{Identity: r.Identity, Fingerprint: [32]byte(r.fingerprint), ArgDigests: r.argDigests})
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

// read returns the row of an identity, nil where there is none. It raises 25006 on a standby,
// whose rows may be missing or out of date.
func (x *Tools) read(ctx context.Context, id table.Identity) (r *row, err error) {
	b := &pgx.Batch{}
	b.Queue(table.Primary)
	b.Queue(x.sql.read, id.Scope, id.Tool, id.Key)
	results := x.pool.SendBatch(ctx, b)
	defer func() {
		if closed := results.Close(); err == nil {
			err = closed
		}
	}()
	if _, err = results.Exec(); err != nil {
		return nil, wire.Waited(x.pool, err)
	}
	return one(collect(results.Query()))
}

func one(rows []*row, err error) (*row, error) {
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0], nil
}

// rows runs a statement that returns whole rows. It may be a transaction of its own that changes
// them.
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

// failed says what a fault of the database has kept from being done.
func failed(what string, err error) error {
	if err == nil || errors.Is(err, dedup.ErrInvalid) {
		return err
	}
	return fmt.Errorf("dedup: %s: %w", what, err)
}
