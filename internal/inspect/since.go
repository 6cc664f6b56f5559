package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
)

// sampled is how many records of a tool are looked at for how long it keeps them.
const sampled = 100

// moment is a place in the order of time: what comes after it was created earlier, or at the
// same time under a lesser key. An empty key comes before all of its time.
type moment struct {
	At  time.Time
	Key string
}

// kept is a retention: from a record's creation on, when its result expires and when it is
// forgotten.
type kept struct{ result, forgotten time.Duration }

// Since reads at most limit records that were created in the time before now, the newest first,
// those after a cursor where it is not empty. No index has that time. The index of what is due next
// has it with the retention added, which a sample of the tool's records tells. Records of any other
// retention than those that it returns are not listed.
func (db *Database) Since(ctx context.Context, l *Listing, since time.Duration, after string, limit int) (page Page[Record], retentions []time.Duration, err error) {
	at, err := place[moment](after)
	if err != nil {
		return page, nil, err
	}
	err = db.read(ctx, func(r *reader) error {
		all, now, err := l.retentions(r)
		if err != nil {
			return err
		}
		from, to := now.Add(-since), now
		if !at.At.IsZero() {
			to = at.At
		}
		var found []Record
		more := false
		for _, k := range all {
			retentions = append(retentions, k.result)
			for _, window := range []dueWindow{{k.result, "IS NOT NULL"}, {k.forgotten, "IS NULL"}} {
				some, reached, err := window.read(r, l, from, to, at, limit+1)
				if err != nil {
					return err
				}
				found = append(found, some...)
				if reached.After(from) { // the others are read as far, and go on from there
					from, more = reached, true
				}
			}
		}
		if more { // what was created then is read on the next page
			found = slices.DeleteFunc(found, func(r Record) bool { return !r.CreatedAt.After(from) })
		}
		slices.SortFunc(found, func(a, b Record) int {
			return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Key, a.Key))
		})
		page = cut(found, limit, func(r *Record) string {
			r.Cursor = cursor(moment{r.CreatedAt, r.Key})
			return r.Cursor
		})
		if more && page.Next == "" {
			page.Next = cursor(moment{At: from})
		}
		return nil
	})
	slices.Sort(retentions)
	return page, slices.Compact(retentions), err
}

func (l *Listing) retentions(r *reader) (all []kept, now time.Time, err error) {
	rows, _ := r.Query(r.ctx, fmt.Sprintf(`SELECT created_at, expires_at, forget_at, clock_timestamp() FROM %s
 WHERE scope = $1::text AND tool = $2::text
 ORDER BY key DESC LIMIT %d`, r.table("tool_dedup"), sampled), l.Scope, l.Tool) // rows have its error
	var created, expires, forget time.Time
	_, err = pgx.ForEachRow(rows, []any{&created, &expires, &forget, &now}, func() error {
		if k := (kept{expires.Sub(created), forget.Sub(created)}); !slices.Contains(all, k) {
			all = append(all, k)
		}
		return nil
	})
	return all, now, err
}

// dueWindow is the records of one retention that have, or no longer have, their result.
type dueWindow struct {
	after  time.Duration // they are due so long after they were created
	result string        // IS NULL, IS NOT NULL
}

// read looks at no more entries of the index than are searched for a page. Where there are
// more, reached is the time to which it has come.
func (w dueWindow) read(r *reader, l *Listing, from, to time.Time, after moment, limit int) (found []Record, reached time.Time, err error) {
	from, to = from.Add(w.after), to.Add(w.after)
	more, err := r.first(dueSearchedSQL(r.table("tool_dedup"), searched), []any{from, to}, &reached)
	if err != nil {
		return nil, reached, err
	}
	if more {
		from, reached = reached, reached.Add(-w.after)
	}
	sql, args := w.sql(r.table("tool_dedup"), l, from, to, after, limit)
	found, err = collect(r, scanRecord, sql, args...)
	return found, reached, err
}

// dueSearchedSQL finds the last entry that a search goes to.
func dueSearchedSQL(table string, searched int) string {
	return fmt.Sprintf(`SELECT %[1]s FROM %[2]s
 WHERE %[1]s >= $1::timestamptz AND %[1]s <= $2::timestamptz
 ORDER BY %[1]s DESC OFFSET %[3]d LIMIT 1`, examiner.DueExpression, table, searched-1)
}

// sql reads a window. Records that are kept for another time may be due in it too. The inner LIMIT keeps the planner with the index of what is due.
func (w dueWindow) sql(table string, l *Listing, from, to time.Time, after moment, limit int) (sql string, args []any) {
	args = []any{from, to, l.Scope, l.Tool, w.after}
	filter, values := l.filter(len(args) + 1)
	args = append(args, values...)
	if after.Key != "" {
		args = append(args, after.At, after.Key)
		filter += fmt.Sprintf(" AND (created_at, key) < ($%d::timestamptz, $%d::text)", len(args)-1, len(args))
	}
	return fmt.Sprintf(`SELECT %[1]s FROM (
SELECT * FROM %[2]s
 WHERE %[3]s >= $1::timestamptz AND %[3]s <= $2::timestamptz
 ORDER BY %[3]s DESC LIMIT %[4]d
) AS due
 WHERE scope = $3::text AND tool = $4::text AND result %[5]s AND %[3]s - created_at = $5::interval%[6]s
 ORDER BY created_at DESC, key DESC LIMIT %[7]d`, recordColumns, table, examiner.DueExpression, 2*searched, w.result, filter, limit), args
}
