package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/examiner"
)

// sampled is how many records of a tool are looked at for how long it keeps them.
const sampled = 100

// Moment is a place in the order of time: what comes after it was created earlier, or at the
// same time under a lesser key. An empty key comes before all of its time.
type Moment struct {
	At  time.Time
	Key string
}

// Recent is a page of records in the order of time, the newest first.
type Recent struct {
	Records []Record
	// Next is where to go on, nil where there is no more.
	Next *Moment
	// Kept are the retentions of the tool's records that were found. Records of any other are
	// not listed.
	Kept []time.Duration
}

// kept is a retention: from a record's creation on, when its result expires and when it is
// forgotten.
type kept struct{ result, forgotten time.Duration }

// Since reads at most limit records that were created in the time before now, those after a
// moment where it is not zero. No index has that time. The index of what is due next has it with
// the retention added, which a sample of the tool's records tells.
func (l *Listing) Since(ctx context.Context, tx pgx.Tx, schema string, since time.Duration, after Moment, limit int) (page Recent, err error) {
	table := tableIn(schema, "tool_dedup")
	all, now, err := l.retentions(ctx, tx, table)
	if err != nil {
		return page, err
	}
	from, to := now.Add(-since), now
	if !after.At.IsZero() {
		to = after.At
	}
	for _, k := range all {
		page.Kept = append(page.Kept, k.result)
		for _, window := range []dueWindow{{k.result, "IS NOT NULL"}, {k.forgotten, "IS NULL"}} {
			found, reached, err := window.read(ctx, tx, table, l, from, to, after, limit+1)
			if err != nil {
				return page, err
			}
			page.Records = append(page.Records, found...)
			if reached.After(from) { // the others are read as far, and go on from there
				from, page.Next = reached, &Moment{At: reached}
			}
		}
	}
	if page.Next != nil { // what was created then is read on the next page
		page.Records = slices.DeleteFunc(page.Records, func(r Record) bool { return !r.CreatedAt.After(from) })
	}
	slices.SortFunc(page.Records, func(a, b Record) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Key, a.Key))
	})
	if len(page.Records) > limit {
		page.Records = page.Records[:limit]
		last := page.Records[limit-1]
		page.Next = &Moment{last.CreatedAt, last.Key}
	}
	slices.Sort(page.Kept)
	page.Kept = slices.Compact(page.Kept)
	return page, nil
}

func (l *Listing) retentions(ctx context.Context, tx pgx.Tx, table string) (all []kept, now time.Time, err error) {
	rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT created_at, expires_at, forget_at, clock_timestamp() FROM %s
 WHERE scope = $1::text AND tool = $2::text
 ORDER BY key DESC LIMIT %d`, table, sampled), l.Scope, l.Tool)
	if err != nil {
		return nil, now, err
	}
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
func (w dueWindow) read(ctx context.Context, tx pgx.Tx, table string, l *Listing, from, to time.Time, after Moment, limit int) (found []Record, reached time.Time, err error) {
	from, to = from.Add(w.after), to.Add(w.after)
	err = tx.QueryRow(ctx, dueSearchedSQL(table, searched), from, to).Scan(&reached)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		reached = time.Time{}
	case err != nil:
		return nil, reached, err
	default:
		from, reached = reached, reached.Add(-w.after)
	}
	sql, args := w.sql(table, l, from, to, after, limit)
	found, err = collect(ctx, tx, scanRecord, sql, args...)
	return found, reached, err
}

// dueSearchedSQL finds the last entry that a search goes to.
func dueSearchedSQL(table string, searched int) string {
	return fmt.Sprintf(`SELECT %[1]s FROM %[2]s
 WHERE %[1]s >= $1::timestamptz AND %[1]s <= $2::timestamptz
 ORDER BY %[1]s DESC OFFSET %[3]d LIMIT 1`, examiner.DueExpression, table, searched-1)
}

// sql reads a window. The inner LIMIT keeps the planner with the index of what is due.
func (w dueWindow) sql(table string, l *Listing, from, to time.Time, after Moment, limit int) (sql string, args []any) {
	args = []any{from, to, l.Scope, l.Tool}
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
 WHERE scope = $3::text AND tool = $4::text AND result %[5]s%[6]s
 ORDER BY created_at DESC, key DESC LIMIT %[7]d`, recordColumns, table, examiner.DueExpression, 2*searched, w.result, filter, limit), args
}
