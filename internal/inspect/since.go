package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// sampled is how many records of a tool are looked at for how long it keeps them.
const sampled = 100

// since lists records by time. No index has that time. The index of what is due next
// has it with the retention added, which a sample of the tool's records tells. Records of any other
// retention are not listed.
func (db *Database) since(ctx context.Context, f *Filter, after string, limit int) (page Page[Record], retentions []time.Duration, err error) {
	page, err = pageOf(ctx, db, "since", after, limit, func(r *reader, at place, limit int) (found []Record, rest place, err error) {
		sample, err := collect[retention](r, f.sample())
		if err != nil || len(sample) == 0 {
			return nil, rest, err
		}
		from, to := sample[0].Now.Add(-f.Since), cmp.Or(at.At, sample[0].Now)
		var windows []dueWindow
		for _, s := range sample {
			retentions = append(retentions, s.Result)
			for _, w := range []dueWindow{{s.Result, "IS NOT NULL"}, {s.Forgotten, "IS NULL"}} {
				if !slices.Contains(windows, w) {
					windows = append(windows, w)
				}
			}
		}
		for _, w := range windows {
			some, reached, err := w.read(r, f, from, to, at, limit)
			if err != nil {
				return nil, rest, err
			}
			found = append(found, some...)
			if reached.After(from) { // the others are read as far, and go on from there
				from, rest.At = reached, reached
			}
		}
		if !rest.At.IsZero() { // what was created then is read on the next page
			found = slices.DeleteFunc(found, func(r Record) bool { return !r.CreatedAt.After(from) })
		}
		slices.SortFunc(found, func(a, b Record) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Key, a.Key))
		})
		return found, rest, nil
	})
	slices.Sort(retentions)
	return page, slices.Compact(retentions), err
}

// retention is when a record's result expires and when the record is forgotten, from its creation on.
type retention struct {
	Result, Forgotten time.Duration
	Now               time.Time
}

// sample reads the retentions of records of a tool.
func (f *Filter) sample() query {
	return query{fmt.Sprintf(`SELECT expires_at - created_at, forget_at - created_at, clock_timestamp() FROM {dedup}
 WHERE `+ofTool+`
 ORDER BY key DESC LIMIT %d`, sampled), f.args()}
}

// dueWindow is the records of one retention that have, or no longer have, their result.
type dueWindow struct {
	after  time.Duration // they are due so long after they were created
	result string        // IS NULL, IS NOT NULL
}

// read looks at no more entries of the index than are searched for a page. Where there are
// more, reached is the time to which it has come.
func (w dueWindow) read(r *reader, f *Filter, from, to time.Time, after place, limit int) (found []Record, reached time.Time, err error) {
	from, to = from.Add(w.after), to.Add(w.after)
	more, err := r.first(dueEnd(from, to, searched), &reached)
	if err != nil {
		return nil, reached, err
	}
	if more {
		from, reached = reached, reached.Add(-w.after)
	}
	found, err = collect[Record](r, w.query(f, from, to, after, limit))
	return found, reached, err
}

const dueBetween = "{due} >= @from::timestamptz AND {due} <= @to::timestamptz"

// dueEnd finds the last entry that a search goes to.
func dueEnd(from, to time.Time, searched int) query {
	return query{fmt.Sprintf(`SELECT {due} FROM {dedup}
 WHERE `+dueBetween+`
 ORDER BY {due} DESC OFFSET %d LIMIT 1`, searched-1), pgx.NamedArgs{"from": from, "to": to}}
}

// query reads a window. Records that are kept for another time may be due in it too. The inner LIMIT
// keeps the planner with the index of what is due.
func (w dueWindow) query(f *Filter, from, to time.Time, after place, limit int) query {
	args := f.args()
	args["from"], args["to"], args["kept"] = from, to, w.after
	if after.Key != "" {
		args["at"], args["after"] = after.At, after.Key
	}
	return query{fmt.Sprintf(`SELECT %s FROM (
SELECT * FROM {dedup}
 WHERE `+dueBetween+`
 ORDER BY {due} DESC LIMIT %d
) AS due
 WHERE result %s AND {due} - created_at = @kept::interval AND %s
 ORDER BY created_at DESC, key DESC LIMIT %d`, recordColumns, 2*searched, w.result,
		filtered(args, "(created_at, key) < (@at::timestamptz, @after::text)"), limit), args}
}
