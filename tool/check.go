package tool

import (
	"context"
	"slices"
)

// Check finds out whether the database has what the registered ExternalTools need. Call it at
// start-up beside migrations.Check. It sends nothing if no tool is external. The error is the one
// that every call of such a tool would meet. Cancelling ctx ends it.
func (r *Registry) Check(ctx context.Context) error {
	if !slices.ContainsFunc(r.Tools(), func(i Info) bool { return i.External }) {
		return nil
	}
	return r.opts.External.Check(ctx)
}
