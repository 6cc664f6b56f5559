package dedupweb

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/inspect"
	"github.com/tooldedup/dedup/internal/table"
)

// latest is how many of the latest records are shown if no scope and tool are given.
const latest = 20

// recordsPage is the data of the page of records. With a scope and a tool it lists their records.
// Otherwise it lists the latest ones, and the scopes and tools that have records.
type recordsPage struct {
	inspect.Filter
	// Key is the key, or its hash, to search for.
	Key      string
	Outcomes []string
	// Missed is the reason why no record is listed for Key.
	Missed string
	// Window limits the list to records that were created in it, the newest first. Without a
	// window, records are listed by key. Only visitors with Keys get that list, because its
	// order tells about keys.
	Window  window
	Records []inspect.Record
	// Tools have the record with the greatest key of each tool, for visitors with Keys.
	Tools []inspect.Record
	// Next is the address of the next page. More is true if there is one, even if its address would
	// show a key.
	Next string
	More bool
	// Found is the key of the call that was searched for.
	Found string
	// MoreTools is true if there may be more tools than are listed.
	MoreTools bool
}

// One reports whether the list is of one tool of one scope.
func (f *recordsPage) One() bool { return f.Scope != "" && f.Tool != "" }

// Windows are the windows to choose from.
func (*recordsPage) Windows() []window { return windows }

// Link is the address of these records in the window of a name, or by key for the empty name.
func (f *recordsPage) Link(window string) string {
	return link("records", "scope", f.Scope, "tool", f.Tool, "outcome", f.Outcome, "last", window)
}

func (c *console) showRecords(v *visit) error {
	f := &recordsPage{
		Filter: inspect.Filter{Scope: v.r.FormValue("scope"), Tool: v.r.FormValue("tool"), Outcome: v.r.FormValue("outcome")},
		Key:    v.r.FormValue("key"), Outcomes: inspect.Outcomes,
	}
	for _, name := range [...]struct{ field, name string }{{"Scope", f.Scope}, {"Tool", f.Tool}, {"Key", f.Key}} {
		if problem := table.NameProblem(name.field, name.name); problem != "" && name.name != "" {
			return fail(http.StatusBadRequest, "%s %s.", name.field, problem)
		}
	}
	last := v.r.FormValue("last")
	switch known := false; {
	case f.Outcome != "" && !slices.Contains(inspect.Outcomes, f.Outcome):
		return fail(http.StatusBadRequest, "There is no such outcome.")
	case f.Scope != "" && !v.sees(f.Scope):
		return fail(http.StatusForbidden, "You may not see this scope.")
	case v.r.FormValue("after") != "" && !v.Keys:
		return fail(http.StatusForbidden, "You need the right to see keys to go on.") // cursors are not signed: forged ones would reveal keys
	case f.One() && f.Key != "" && !isHash.MatchString(f.Key):
		return v.redirect(call{f.Scope, f.Tool, f.Key, true}.Link())
	case last != "":
		if f.Window, known = windowOf(last); !known {
			return fail(http.StatusBadRequest, "There is no such window.")
		}
	case f.One() && !v.Keys && f.Key == "":
		f.Window = windows[len(windows)-1]
	}
	f.Since = f.Window.span
	read := c.readLatest
	switch {
	case f.One() && f.Key != "":
		read = c.readHash
	case f.One():
		read = c.readPage
	}
	if err := read(v.r.Context(), v, f); err != nil {
		return err
	}
	if f.Found != "" {
		return v.redirect(call{f.Scope, f.Tool, f.Found, true}.Link())
	}
	if !v.Keys {
		slices.SortStableFunc(f.Records, byHash)
	}
	return v.page("records", f)
}

// isHash matches the form of a key's hash. A key may have that form too.
var isHash = regexp.MustCompile(`^[0-9a-f]{16}$`)

// byHash sorts the newest record first. Records of the same time are sorted by hash, because an
// order by key tells about keys.
func byHash(a, b inspect.Record) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(dedup.KeyHash(a.Key), dedup.KeyHash(b.Key)))
}

// readHash finds the call whose key has a hash. If the visitor may see keys, it sets Found.
func (c *console) readHash(ctx context.Context, v *visit, f *recordsPage) error {
	key, there, all, err := c.db.Find(ctx, f.Scope, f.Tool, f.Key)
	if err != nil {
		return err
	}
	if !there {
		f.Missed = "No call of this tool in this scope has a key with this hash. Its record may be forgotten, or the call did not run."
		if !all {
			f.Missed = "No key with this hash is among the greatest keys, which were searched. To search the others, use `dedup list --key-hash`."
		}
		return nil
	}
	if v.Keys {
		f.Found = key
		return nil
	}
	page, _, err := c.db.Records(ctx, &inspect.Filter{Scope: f.Scope, Tool: f.Tool, Key: key}, "", 1)
	if f.Records = page.Entries; len(f.Records) == 0 {
		f.Missed = "The key with this hash belongs to an effect outside the database that has no answer yet. See Attention and In flight."
	}
	return err
}

// readPage reads the records of a tool of a scope after a cursor.
func (c *console) readPage(ctx context.Context, v *visit, f *recordsPage) error {
	page, _, err := c.db.Records(ctx, &f.Filter, v.r.FormValue("after"), listed)
	if errors.Is(err, inspect.ErrCursor) {
		return noSuchPage
	}
	f.Records = page.Entries
	if f.More = page.Next != ""; f.More && v.Keys {
		f.Next = f.Link(f.Window.Name) + "&after=" + page.Next
	}
	return err
}

// readLatest reads the latest records and the tools that the visitor may see.
func (c *console) readLatest(ctx context.Context, v *visit, f *recordsPage) (err error) {
	f.Scopes = v.Scopes
	if f.Records, err = c.db.Latest(ctx, &f.Filter, latest); err != nil {
		return err
	}
	scopes := []string{f.Scope} // an empty one means all
	if f.Scope == "" && !v.seesAll() {
		scopes = slices.Compact(slices.Sorted(slices.Values(v.Scopes)))
	}
	var tools []inspect.ScopedTool
	for i, scope := range scopes {
		if f.MoreTools = f.MoreTools || len(tools) == listed || i == searched; f.MoreTools {
			break
		}
		some, err := c.db.WithRecords(ctx, inspect.ScopedTool{Scope: scope, Tool: f.Tool}, "", listed-len(tools))
		if err != nil {
			return err
		}
		tools, f.MoreTools = append(tools, some.Entries...), some.Next != ""
	}
	if v.Keys {
		f.Tools, err = c.db.Greatest(ctx, tools)
		return err
	}
	for _, t := range tools {
		f.Tools = append(f.Tools, inspect.Record{Scope: t.Scope, Tool: t.Tool})
	}
	return nil
}
