package dedupweb

import (
	"context"
	"net/http"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/inspect"
	"github.com/tooldedup/dedup/internal/table"
)

// latest is how many of the latest records are shown where no tool of a scope is named.
const latest = 20

// found is the page of records: those of a tool of a scope, else the latest ones, and which
// tools of which scopes have records.
type found struct {
	inspect.Listing
	Key      string // that is looked for without a scope or a tool
	Outcomes []string
	Records  []listedRecord
	Tools    []listedRecord
	// Next is the address of the page after this one, and More is true where there is one
	// whose address would show a key.
	Next string
	More bool
	// MoreTools says whether there may be more tools than are listed.
	MoreTools bool
}

// One reports whether it is of one tool of one scope.
func (f *found) One() bool { return f.Scope != "" && f.Tool != "" }

type listedRecord struct {
	Call call
	inspect.Record
}

func (v *visit) listed(records []inspect.Record) (all []listedRecord) {
	for _, r := range records {
		all = append(all, listedRecord{call{r.Scope, r.Tool, r.Key, v.Keys}, r})
	}
	return all
}

func (c *console) showRecords(v *visit) error {
	f := &found{
		Listing: inspect.Listing{Scope: v.r.FormValue("scope"), Tool: v.r.FormValue("tool"), Outcome: v.r.FormValue("outcome")},
		Key:     v.r.FormValue("key"), Outcomes: inspect.Outcomes,
	}
	after := v.r.FormValue("after")
	for _, name := range [...]struct{ field, name string }{{"Scope", f.Scope}, {"Tool", f.Tool}, {"Key", f.Key}, {"Key", after}} {
		if problem := table.NameProblem(name.field, name.name); problem != "" && name.name != "" {
			return fail(http.StatusBadRequest, "%s %s.", name.field, problem)
		}
	}
	switch {
	case f.Outcome != "" && !slices.Contains(inspect.Outcomes, f.Outcome):
		return fail(http.StatusBadRequest, "There is no such outcome.")
	case f.Scope != "" && !v.sees(f.Scope):
		return fail(http.StatusForbidden, "You may not see this scope.")
	case f.One() && f.Key != "":
		return v.goTo(call{f.Scope, f.Tool, f.Key, true}.Link())
	}
	ctx, read := v.r.Context(), c.readLatest
	if f.One() {
		read = func(ctx context.Context, v *visit, f *found) error { return c.readPage(ctx, v, f, after) }
	}
	if err := read(ctx, v, f); err != nil {
		return err
	}
	return v.page("records", f)
}

// readPage reads the records of a tool of a scope that come after a key.
func (c *console) readPage(ctx context.Context, v *visit, f *found, after string) error {
	return c.db.ReadOnly(ctx, func(tx pgx.Tx) error {
		records, next, err := f.Page(ctx, tx, c.db.Schema, after, listed)
		f.Records = v.listed(records)
		if f.More = next != ""; f.More && v.Keys {
			f.Next = link("records", "scope", f.Scope, "tool", f.Tool, "outcome", f.Outcome, "after", next)
		}
		return err
	})
}

// readLatest reads the latest records and the tools, as far as they may be seen.
func (c *console) readLatest(ctx context.Context, v *visit, f *found) error {
	err := c.db.ReadOnly(ctx, func(tx pgx.Tx) error {
		records, err := f.Latest(ctx, tx, c.db.Schema, v.Scopes, c.d.Options().Retention.Result, latest)
		f.Records = v.listed(records)
		return err
	})
	if err != nil {
		return err
	}
	return c.db.ReadOnly(ctx, func(tx pgx.Tx) error { return c.readTools(ctx, tx, v, f) })
}

// readTools reads which tools have records, in the scope that is named or all that may be seen.
func (c *console) readTools(ctx context.Context, tx pgx.Tx, v *visit, f *found) error {
	scopes := []string{f.Scope} // an empty one means all
	if f.Scope == "" && !v.seesAll() {
		scopes = slices.Compact(slices.Sorted(slices.Values(v.Scopes)))
	}
	var tools []inspect.ScopedTool
	for i, scope := range scopes {
		if f.MoreTools = len(tools) == listed || i == searched; f.MoreTools {
			break
		}
		only := inspect.ScopedTool{Scope: scope, Tool: f.Tool}
		some, next, err := inspect.Tools(ctx, tx, c.db.Schema, only, inspect.ScopedTool{}, listed-len(tools))
		if err != nil {
			return err
		}
		tools = append(tools, some...)
		if f.MoreTools = next != (inspect.ScopedTool{}); f.MoreTools {
			break
		}
	}
	records, err := inspect.Greatest(ctx, tx, c.db.Schema, tools)
	f.Tools = v.listed(records)
	return err
}
