package dedupweb

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/inspect"
)

// callLines is how many lines of the audit a call's page has.
const callLines = 20

// known is what a call's page shows.
type known struct {
	call
	dedup.Status
	// Hidden is true where there is a result or a refusal that the visitor may not see.
	Hidden    bool
	Operation *operation // nil where there is none
	Sessions  []inspect.Session
	Audit     []inspect.AuditLine
	// Act says whether the visitor may free the record.
	Act bool
}

func (c *console) showCall(v *visit) error {
	id, err := v.identity()
	if err != nil {
		return err
	}
	k := &known{call: id}
	ctx, cancel := context.WithTimeout(v.r.Context(), statementTimeout)
	defer cancel()
	k.Status, err = c.d.Lookup(ctx, id.Scope, id.Tool, id.Key)
	switch {
	case errors.Is(err, dedup.ErrSchema):
		return fail(http.StatusInternalServerError, "The table tool_dedup is not sound; `dedup migrate check` says what is wrong.")
	case err != nil:
		return err
	}
	if k.Hidden = !v.Results && (k.Result != nil || k.Refusal != nil); k.Hidden {
		k.Result, k.Refusal = nil, nil
	}
	k.Act = v.Act && !k.CreatedAt.IsZero()
	status, err := c.tools.Status(ctx, id.Scope, id.Tool, id.Key)
	op := status.Operation
	switch {
	case inspect.IsMissing(err) || err == nil && op.State == external.None:
	case err != nil:
		return err
	default:
		k.Operation = &operation{id, op, v.Act && op.State != external.Done}
		k.Act = false // it is resolved, and never freed
	}
	if err := c.readBeside(v, k); err != nil {
		return err
	}
	return v.page("call", k)
}

// readBeside reads who is at the call, and what was done to it by hand.
func (c *console) readBeside(v *visit, k *known) error {
	err := c.db.ReadOnly(v.r.Context(), func(tx pgx.Tx) (err error) {
		k.Sessions, err = inspect.Sessions(v.r.Context(), tx, c.db.Schema, k.Scope, k.Tool, k.Key)
		v.hide(k.Sessions)
		return err
	})
	if err != nil {
		return err
	}
	_, err = c.read(v.r.Context(), func(tx pgx.Tx) (err error) {
		of := inspect.Search{Scope: k.Scope, Tool: k.Tool, Key: k.Key}
		k.Audit, err = of.Audit(v.r.Context(), tx, c.db.Schema, 0, callLines)
		return err
	})
	return err
}
