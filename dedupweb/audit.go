package dedupweb

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/inspect"
)

// audited is a page of the audit.
type audited struct {
	Lines   []auditLine
	Next    string
	Missing bool // the table
}

type auditLine struct {
	Call call
	inspect.AuditLine
}

func (c *console) showAudit(v *visit) error {
	before := int64(0)
	if text := v.r.FormValue("before"); text != "" {
		var err error
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 {
			return fail(http.StatusBadRequest, "There is no such page of the audit.")
		}
	}
	a := &audited{}
	var err error
	a.Missing, err = c.read(v.r.Context(), func(tx pgx.Tx) error {
		of := inspect.Search{Scopes: v.Scopes}
		lines, err := of.Audit(v.r.Context(), tx, c.db.Schema, before, listed+1)
		for _, l := range lines[:min(len(lines), listed)] {
			a.Lines = append(a.Lines, auditLine{call{l.Scope, l.Tool, l.Key, v.Keys}, l})
		}
		if len(lines) > listed {
			a.Next = fmt.Sprintf("audit?before=%d", lines[listed-1].ID)
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.page("audit", a)
}
