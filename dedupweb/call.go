package dedupweb

import (
	"errors"
	"net/http"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/inspect"
)

// known is what a call's page shows.
type known struct {
	*inspect.Call
	// Hidden is true where there is a result or a refusal that the visitor may not see.
	Hidden bool
	// Free says whether the visitor may free the record, and Resolve whether they may say what became
	// of the operation.
	Free, Resolve bool
}

// Hash is that of the key.
func (k *known) Hash() string { return dedup.KeyHash(k.Key) }

// IsHash reports whether the key looks like the hash of one.
func (k *known) IsHash() bool { return isHash.MatchString(k.Key) }

func (c *console) showCall(v *visit) error {
	id, err := v.identity()
	if err != nil {
		return err
	}
	found, err := c.db.Call(v.r.Context(), id.Scope, id.Tool, id.Key)
	switch {
	case errors.Is(err, dedup.ErrSchema):
		return fail(http.StatusInternalServerError, "The table tool_dedup is not sound; `dedup migrate check` says what is wrong.")
	case err != nil:
		return err
	}
	k := &known{Call: found}
	if !v.Results {
		k.Hidden = found.Hide()
		for i := range found.Sessions {
			found.Sessions[i].Statement = ""
		}
	}
	k.Free = v.Act && !found.CreatedAt.IsZero() && found.Operation == nil // that is resolved, and never freed
	k.Resolve = v.Act && found.Operation != nil && found.Operation.State != external.Done
	return v.page("call", k)
}
