package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Operation is an effect outside of the database, as `dedup parked --json` writes it. It has nothing
// of the input.
type Operation struct {
	Scope       string         `json:"scope"`
	Tool        string         `json:"tool"`
	Key         string         `json:"key"`
	KeyHash     string         `json:"key_hash"` // as logs and traces have it
	State       external.State `json:"state"`
	Fence       int64          `json:"fence"`
	ProviderKey string         `json:"provider_key"`
	// Since is when it was parked or got its verdict, of an operation that is not parked when it
	// last changed.
	Since     time.Time `json:"since"`
	CreatedAt time.Time `json:"created_at"`
	SentAt    time.Time `json:"sent_at,omitzero"`
	Ref       string    `json:"ref,omitempty"`
	Twice     string    `json:"twice,omitempty"`
	Note      string    `json:"note,omitempty"`
	Verdict   string    `json:"verdict,omitempty"`
	Cursor    string    `json:"cursor,omitempty"`

	// Decision says who has given the Verdict, and when. Due is when a process may next act.
	Decision string    `json:"-"`
	Due      time.Time `json:"-"`
	Now      time.Time `json:"-"` // when it was read
}

// OperationOf is what is shown of an operation.
func OperationOf(op *external.Operation) Operation {
	shown := Operation{
		Scope: op.Scope, Tool: op.Tool, Key: op.Key, KeyHash: dedup.KeyHash(op.Key), State: op.State, Fence: op.Fence, ProviderKey: op.ProviderKey,
		Since: op.ChangedAt.UTC(), CreatedAt: op.CreatedAt.UTC(), Ref: op.Ref, Twice: op.Twice, Note: op.Note, Verdict: op.Verdict,
		Decision: op.Decision(), Due: op.Due, Now: op.Now,
	}
	if !op.SentAt.IsZero() {
		shown.SentAt = op.SentAt.UTC()
	}
	return shown
}

// operationPlace is where an operation stands in a list.
type operationPlace struct {
	Since            time.Time
	Scope, Tool, Key string
}

// Parked reads the operations that somebody has to look at, the oldest first.
func (db *Database) Parked(ctx context.Context, after string, limit int) (Page[Operation], error) {
	return db.operations(ctx, after, limit, func(op *Operation) time.Time { return op.Since },
		func(ctx context.Context, tx pgx.Tx, from external.Operation, limit int) ([]external.Operation, error) {
			return db.Tools.Parked(ctx, tx, from, limit)
		})
}

// Open reads the operations without an answer that are not parked, the oldest first.
func (db *Database) Open(ctx context.Context, olderThan time.Duration, after string, limit int) (Page[Operation], error) {
	read := func(ctx context.Context, tx pgx.Tx, from external.Operation, limit int) ([]external.Operation, error) {
		return db.Tools.Open(ctx, tx, from, olderThan, limit)
	}
	return db.operations(ctx, after, limit, func(op *Operation) time.Time { return op.CreatedAt }, read)
}

func (db *Database) operations(ctx context.Context, after string, limit int, since func(*Operation) time.Time,
	read func(ctx context.Context, tx pgx.Tx, after external.Operation, limit int) ([]external.Operation, error),
) (page Page[Operation], err error) {
	at, err := place[operationPlace](after)
	if err != nil {
		return page, err
	}
	from := external.Operation{Scope: at.Scope, Tool: at.Tool, Key: at.Key, ChangedAt: at.Since, CreatedAt: at.Since}
	err = db.read(ctx, func(r *reader) error {
		ops, err := read(ctx, r.Tx, from, limit+1) // one more says that there is more
		var found []Operation
		for i := range ops {
			found = append(found, OperationOf(&ops[i]))
		}
		page = cut(found, limit, func(op *Operation) string {
			op.Cursor = cursor(operationPlace{since(op), op.Scope, op.Tool, op.Key})
			return op.Cursor
		})
		return err
	})
	return page, err
}

// seen reports whether a scope is one of those that are looked at; nil means all.
func seen(scopes []string, scope string) bool { return scopes == nil || slices.Contains(scopes, scope) }
