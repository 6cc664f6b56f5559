package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/table"
)

// sampled is how many records of a tool are read to find its retentions.
const sampled = 100

// since lists records by time of creation. No index has that time, but the index of due records has
// it plus the retention. A sample of the tool's records gives the retentions; records with other
// retentions are not listed.
func (db *Database) since(ctx context.Context, f *Filter, after string, limit int) (page Page[Record], retentions []time.Duration, err error) {
	page, err = pageOf(ctx, db, "since", after, limit, func(r *reader, at place, limit int) (found []Record, rest place, err error) {
		sample, err := collect[retention](r, f.sample())
		if err != nil || len(sample) == 0 {
			return nil, rest, err
		}
		from, to := sample[0].Now.Add(-f.Since), cmp.Or(at.At, sample[0].Now)
		var windows []dueWindow
		for _, s := range sample {
			all := []dueWindow{{s.Forgotten, "IS NULL"}}
			if s.Result != nil {
				retentions = append(retentions, *s.Result)
				all = append(all, dueWindow{*s.Result, "IS NOT NULL"})
			}
			for _, w := range all {
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
			if reached.After(from) { // the other windows are read as far
				from, rest.At = reached, reached
			}
		}
		if !rest.At.IsZero() { // older records are on the next page
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

// retention is the time from a record's creation until its result expires, and until it is
// forgotten. Result is nil for an erased record, which expired when it was erased, and for a record
// that kept no answer.
type retention struct {
	Result    *time.Duration
	Forgotten time.Duration
	Now       time.Time
}

// sample selects the retentions of some of a tool's records.
func (f *Filter) sample() query {
	return query{fmt.Sprintf(`SELECT CASE WHEN fingerprint <> %s AND expires_at > created_at THEN expires_at - created_at END, forget_at - created_at, clock_timestamp() FROM {dedup}
 WHERE `+ofTool+`
 ORDER BY key DESC LIMIT %d`, table.Erased, sampled), f.args()}
}

// dueWindow has the records of one retention, with or without their result.
type dueWindow struct {
	after  time.Duration // the time from creation until due
	result string        // IS NULL, IS NOT NULL
}

// read reads at most searched entries of the index. If there are more, reached is the time of
// creation at which it stopped.
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

// dueEnd selects the last entry of a search.
func dueEnd(from, to time.Time, searched int) query {
	return query{fmt.Sprintf(`SELECT {due} FROM {dedup}
 WHERE `+dueBetween+`
 ORDER BY {due} DESC OFFSET %d LIMIT 1`, searched-1), pgx.NamedArgs{"from": from, "to": to}}
}

// query selects the records of a window. Records with another retention may be due in it too, so
// they are filtered out. The inner LIMIT makes the planner use the index of due records.
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
