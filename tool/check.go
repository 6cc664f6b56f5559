package tool

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Check finds out whether the database has what the registered ExternalTools need, and what the guards
// of the others do, by using it in a transaction that is rolled back. Call it at
// start-up beside migrations.Check, which does not look at what the role may do
// with the guards' table. It sends nothing if no tool has a guard or is external. The error is the one that
// every call of such a tool would meet. Cancelling ctx ends it.
func (r *Registry) Check(ctx context.Context) error {
	tools := r.Tools()
	if slices.ContainsFunc(tools, func(i Info) bool { return i.External }) {
		if err := r.opts.External.Check(ctx); err != nil {
			return err
		}
	}
	for _, info := range tools {
		if info.Lookalikes.Action == Ignore {
			continue
		}
		probe := &call{Call: dedup.Call{Scope: "check", Tool: info.Name, Key: "check"}}
		err := pgx.BeginFunc(ctx, r.d.Pool(), func(tx pgx.Tx) error {
			if _, err := r.guard(r.find(info.Name), probe, likeness{}).enter(ctx, tx); err != nil {
				return err
			}
			return errProbed
		})
		if !errors.Is(err, errProbed) {
			return err
		}
	}
	return nil
}

var errProbed = errors.New("tool: probed")
