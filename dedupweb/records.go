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

// latest is how many of the latest records are shown where no tool of a scope is named.
const latest = 20

// found is the page of records: those of a tool of a scope, else the latest ones, and which
// tools of which scopes have records.
type found struct {
	inspect.Filter
	// Key is a key, or the hash of one, that is looked for.
	Key      string
	Outcomes []string
	// Missed says why no record is listed for Key.
	Missed string
	// Window is how far back those of a tool of a scope are listed by time, the newest first. Without
	// one they are listed by key, which only visitors get who see keys: the order tells of them.
	Window  window
	Records []inspect.Record
	// Tools have the record with the greatest key of each tool, for those who see keys.
	Tools []inspect.Record
	// Next is the address of the page after this one, and More is true where there is one
	// whose address would show a key.
	Next string
	More bool
	// Found is the key of the call that was looked for.
	Found string
	// MoreTools says whether there may be more tools than are listed.
	MoreTools bool
}

// One reports whether it is of one tool of one scope.
func (f *found) One() bool { return f.Scope != "" && f.Tool != "" }

// Windows are those to choose from.
func (*found) Windows() []window { return windows }

// Link is the address of these records in a window, or by key where that has no name.
func (f *found) Link(window string) string {
	return link("records", "scope", f.Scope, "tool", f.Tool, "outcome", f.Outcome, "last", window)
}

func (c *console) showRecords(v *visit) error {
	f := &found{
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
		return fail(http.StatusForbidden, "Only those who may see keys can go on.") // a cursor is not signed: answers to forged ones tell keys
	case f.One() && f.Key != "" && !isHash.MatchString(f.Key):
		return v.goTo(call{f.Scope, f.Tool, f.Key, true}.Link())
	case last != "":
		if f.Window, known = windowOf(last); !known {
			return fail(http.StatusBadRequest, "There is no such time to show.")
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
		return v.goTo(call{f.Scope, f.Tool, f.Found, true}.Link())
	}
	if !v.Keys {
		slices.SortStableFunc(f.Records, byHash)
	}
	return v.page("records", f)
}

// isHash is the form of a key's hash, which a key may have too.
var isHash = regexp.MustCompile(`^[0-9a-f]{16}$`)

// byHash has the newest record first, as lists by time do. Records of one moment are in the order of their hashes,
// and not of their keys.
func byHash(a, b inspect.Record) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(dedup.KeyHash(a.Key), dedup.KeyHash(b.Key)))
}

// readHash finds the call whose key has a hash, else the one with the hash as its key. Its page is for those who see keys.
func (c *console) readHash(ctx context.Context, v *visit, f *found) error {
	key, there, all, err := c.db.Find(ctx, f.Scope, f.Tool, f.Key)
	if err != nil {
		return err
	}
	if !there {
		f.Missed = "No call of this tool in this scope has a key with this hash. Its record may be forgotten, or it did not run."
		if !all {
			f.Missed = "No key with this hash was found among the greatest keys that were looked at. There are more records: `dedup list --key-hash` goes on."
		}
		return nil
	}
	if v.Keys {
		f.Found = key
		return nil
	}
	page, _, err := c.db.Records(ctx, &inspect.Filter{Scope: f.Scope, Tool: f.Tool, Key: key}, "", 1)
	if f.Records = page.Entries; len(f.Records) == 0 {
		f.Missed = "The key with this hash is that of an effect outside of the database that has no answer yet. Attention and In flight list those that need somebody."
	}
	return err
}

// readPage reads the records of a tool of a scope that come after a cursor.
func (c *console) readPage(ctx context.Context, v *visit, f *found) error {
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

// readLatest reads the latest records and the tools, as far as they may be seen.
func (c *console) readLatest(ctx context.Context, v *visit, f *found) (err error) {
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
