package effects

import (
	"fmt"
	"io"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/external"
)

// Entry is an operation as --json writes it. Its fields are stable: more may come, none goes.
// It has nothing of the input.
type Entry struct {
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
	cli.Position

	now      time.Time
	decision string
}

// NewEntry is the entry of an operation.
func NewEntry(op external.Operation) Entry {
	e := Entry{
		Scope: op.Scope, Tool: op.Tool, Key: op.Key, KeyHash: dedup.KeyHash(op.Key), State: op.State, Fence: op.Fence, ProviderKey: op.ProviderKey,
		Since: op.ChangedAt.UTC(), CreatedAt: op.CreatedAt.UTC(), Ref: op.Ref, Twice: op.Twice, Note: op.Note, Verdict: op.Verdict, now: op.Now, decision: op.Decision(),
	}
	if !op.SentAt.IsZero() {
		e.SentAt = op.SentAt.UTC()
	}
	return e
}

// WriteText writes what names the operation as words of a shell, and below it what is known.
func (e Entry) WriteText(out io.Writer) error {
	return cli.WriteText(out, e.name(),
		"state", fmt.Sprintf("%s since %s (%s), fence %d", e.State, e.Since.Format(time.RFC3339), cli.Lasting(e.now.Sub(e.Since)), e.Fence),
		"key hash", e.KeyHash,
		"provider key", e.ProviderKey,
		"ref", e.Ref,
		"twice", e.Twice,
		"note", e.Note,
		"verdict", e.decision,
	)
}

// name is what `dedup resolve` is given.
func (e Entry) name() string { return cli.Name(e.Scope, e.Tool, e.Key) }
