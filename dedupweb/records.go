package dedupweb

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/inspect"
	"github.com/tooldedup/dedup/internal/table"
)

// found is the page of records.
type found struct {
	inspect.Listing
	Outcomes []string
	Asked    bool
	Records  []listedRecord
	// Next is the address of the page after this one, and More is true where there is one
	// whose address would show a key.
	Next string
	More bool
}

type listedRecord struct {
	Call call
	inspect.Record
}

func (c *console) showRecords(v *visit) error {
	f := &found{Listing: inspect.Listing{Scope: v.r.FormValue("scope"), Tool: v.r.FormValue("tool"), Outcome: v.r.FormValue("outcome")}, Outcomes: inspect.Outcomes}
	if v.r.FormValue("key") != "" {
		id, err := v.identity()
		if err != nil {
			return err
		}
		return v.goTo(id.Link())
	}
	if f.Scope == "" && f.Tool == "" {
		return v.page("records", f)
	}
	after := v.r.FormValue("after")
	for _, name := range [...]struct{ field, name string }{{"Scope", f.Scope}, {"Tool", f.Tool}, {"Key", after}} {
		problem := table.NameProblem(name.field, name.name)
		if problem != "" && (name.field != "Key" || after != "") {
			return fail(http.StatusBadRequest, "%s %s.", name.field, problem)
		}
	}
	switch {
	case f.Outcome != "" && !slices.Contains(inspect.Outcomes, f.Outcome):
		return fail(http.StatusBadRequest, "There is no such outcome.")
	case !v.sees(f.Scope):
		return fail(http.StatusForbidden, "You may not see this scope.")
	}
	f.Asked = true
	err := c.db.ReadOnly(v.r.Context(), func(tx pgx.Tx) error {
		records, next, err := f.Page(v.r.Context(), tx, c.db.Schema, after, listed)
		for _, r := range records {
			f.Records = append(f.Records, listedRecord{call{r.Scope, r.Tool, r.Key, v.Keys}, r})
		}
		if f.More = next != ""; f.More && v.Keys {
			f.Next = "records?" + url.Values{"scope": {f.Scope}, "tool": {f.Tool}, "outcome": {f.Outcome}, "after": {next}}.Encode()
		}
		return err
	})
	if err != nil {
		return err
	}
	return v.page("records", f)
}
