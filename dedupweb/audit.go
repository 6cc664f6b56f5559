package dedupweb

import (
	"errors"

	"github.com/tooldedup/dedup/internal/inspect"
)

// auditPage is a page of the audit.
type auditPage struct {
	Lines   []inspect.AuditLine
	Next    string
	Missing bool // the table does not exist
}

func (c *console) showAudit(v *visit) error {
	page, err := c.db.Audit(v.r.Context(), &inspect.Filter{Scopes: v.Scopes}, v.r.FormValue("after"), listed)
	a := &auditPage{Lines: page.Entries, Missing: inspect.IsMissing(err)}
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
