package dedupweb

import (
	"errors"

	"github.com/tooldedup/dedup/internal/inspect"
)

// audited is a page of the audit.
type audited struct {
	Lines   []inspect.AuditLine
	Next    string
	Missing bool // the table
}

func (c *console) showAudit(v *visit) error {
	page, err := c.db.Audit(v.r.Context(), &inspect.Filter{Scopes: v.Scopes}, v.r.FormValue("after"), listed)
	a := &audited{Lines: page.Entries, Missing: inspect.IsMissing(err)}
	switch {
	case errors.Is(err, inspect.ErrCursor):
		return noSuchPage
	case err != nil && !a.Missing:
		return err
	case page.Next != "":
		a.Next = link("audit", "after", page.Next)
	}
	return v.page("audit", a)
}
