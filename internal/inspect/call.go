package inspect

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/table"
)

// callLines is the most lines of the audit that are read for one call.
const callLines = 20

// Call has everything that the tables have about a call. `dedup show --json` writes it.
type Call struct {
	Scope       string          `json:"scope"`
	Tool        string          `json:"tool"`
	Key         string          `json:"key"`
	State       string          `json:"state"`
	Fingerprint string          `json:"fingerprint,omitempty"`
	CreatedAt   time.Time       `json:"created_at,omitzero"`
	ExpiresAt   time.Time       `json:"expires_at,omitzero"`
	ForgetAt    time.Time       `json:"forget_at,omitzero"`
	Result      json.RawMessage `json:"result,omitempty"`
	Refusal     string          `json:"refusal,omitempty"`
	Sessions    []Session       `json:"sessions,omitempty"`
	Operation   *Operation      `json:"operation,omitempty"`
	Audit       []AuditLine     `json:"audit,omitempty"`
	Now         time.Time       `json:"-"` // when it was read
	// Audited is true if the audit's table exists.
	Audited bool `json:"-"`
}

// Call reads everything about a call. The tables other than tool_dedup may be missing. The error is
// a [dedup.ErrInvalid] if no call can have that name.
func (db *Database) Call(ctx context.Context, scope, tool, key string) (*Call, error) {
	c := &Call{Scope: scope, Tool: tool, Key: key}
	if err := db.lookUp(ctx, c); err != nil {
		return nil, err
	}
	err := db.read(ctx, func(r *reader) (err error) {
		c.Sessions, err = collect[Session](r, sessionsOf(table.Identity{Scope: scope, Tool: tool, Key: key}.LockKey(r.schema)))
		return err
	})
	if err != nil {
		return nil, err
	}
	lines, err := db.Audit(ctx, &Filter{Scope: scope, Tool: tool, Key: key}, "", callLines)
	if err != nil && !IsMissing(err) {
		return nil, err
	}
	c.Audit, c.Audited = lines.Entries, err == nil
	return c, nil
}

// lookUp reads the record and the operation through the library.
func (db *Database) lookUp(ctx context.Context, c *Call) error {
	ctx, cancel := context.WithTimeout(ctx, db.Timeout)
	defer cancel()
	status, err := db.D.Lookup(ctx, c.Scope, c.Tool, c.Key)
	if err != nil {
		return err
	}
	c.State, c.Result, c.Now = string(status.State), status.Result, status.Now
	c.CreatedAt, c.ExpiresAt, c.ForgetAt = status.CreatedAt.UTC(), status.ExpiresAt.UTC(), status.ForgetAt.UTC()
	if !c.CreatedAt.IsZero() {
		c.Fingerprint = status.Fingerprint.String()
	}
	if status.Refusal != nil {
		c.Refusal = status.Refusal.Message
	}
	outside, err := db.Tools.Status(ctx, c.Scope, c.Tool, c.Key)
	if err == nil && outside.Operation.State != external.StateNone {
		op := OperationOf(&outside.Operation)
		c.Operation = &op
	}
	if IsMissing(err) {
		return nil
	}
	return err
}

// Hide removes the answer and reports whether there was one.
func (c *Call) Hide() (had bool) {
	had = c.Result != nil || c.Refusal != ""
	c.Result, c.Refusal = nil, ""
	return had
}
