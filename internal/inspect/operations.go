package inspect

import (
	"context"
	"slices"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Operation is an effect outside the database, without its input. `dedup parked --json` writes
// it.
type Operation struct {
	Scope       string         `json:"scope"`
	Tool        string         `json:"tool"`
	Key         string         `json:"key"`
	KeyHash     string         `json:"key_hash"` // as in logs and traces
	State       external.State `json:"state"`
	Fence       int64          `json:"fence"`
	ProviderKey string         `json:"provider_key"`
	// Since is when the operation was parked or got its verdict. If it is not parked, Since is its
	// last change.
	Since     time.Time `json:"since"`
	CreatedAt time.Time `json:"created_at"`
	SentAt    time.Time `json:"sent_at,omitzero"`
	Ref       string    `json:"ref,omitempty"`
	Twice     string    `json:"twice,omitempty"`
	Note      string    `json:"note,omitempty"`
	Verdict   string    `json:"verdict,omitempty"`
	// Decision describes the Verdict: its actor, reason and time.
	Decision string `json:"-"`
	Entry
}

// OperationOf converts an operation.
func OperationOf(op *external.Operation) Operation {
	return Operation{
		Scope: op.Scope, Tool: op.Tool, Key: op.Key, KeyHash: dedup.KeyHash(op.Key), State: op.State, Fence: op.Fence, ProviderKey: op.ProviderKey,
		Since: op.ChangedAt.UTC(), CreatedAt: op.CreatedAt.UTC(), SentAt: op.SentAt.UTC(), Ref: op.Ref, Twice: op.Twice, Note: op.Note, Verdict: op.Verdict,
		Decision: op.Decision(), Entry: Entry{Now: op.Now},
	}
}

func (op *Operation) place() place {
	return place{At: op.Since, Created: op.CreatedAt, Scope: op.Scope, Tool: op.Tool, Key: op.Key}
}

// Operations reads the operations that need an operator. With open it reads those without an answer
// that are not parked and are older than olderThan. The oldest come first.
func (db *Database) Operations(ctx context.Context, open bool, olderThan time.Duration, after string, limit int) (Page[Operation], error) {
	list := "parked"
	if open {
		list = "open"
	}
	return pageOf(ctx, db, list, after, limit, func(r *reader, at place, limit int) (found []Operation, rest place, err error) {
		from := external.Operation{Scope: at.Scope, Tool: at.Tool, Key: at.Key, ChangedAt: at.At, CreatedAt: at.Created}
		var ops []external.Operation
		if open {
			ops, err = db.Tools.Open(ctx, r.Tx, external.List{After: from, OlderThan: olderThan, Limit: limit})
		} else {
			ops, err = db.Tools.Parked(ctx, r.Tx, external.List{After: from, Limit: limit})
		}
		for i := range ops {
			found = append(found, OperationOf(&ops[i]))
		}
		return found, rest, err
	})
}

// seen reports whether a scope is one of scopes; nil means all.
func seen(scopes []string, scope string) bool { return scopes == nil || slices.Contains(scopes, scope) }
