package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Outcomes are those that a record may have.
var Outcomes = []string{"done", "refused", "broken", "claimed"}

// searched is how many records are looked at for a page of one outcome.
const searched = 20_000

// Listing is which records are listed, the greatest key first. Outcome is empty for all, and so
// is KeyHash, which is that of package dedup.
type Listing struct{ Scope, Tool, Outcome, KeyHash string }

// keyHashSQL is dedup.KeyHash of a record's key.
const keyHashSQL = `left(encode(sha256('dedup/key-hash/v1'::bytea || int8send(octet_length(convert_to(key, 'UTF8'))) || convert_to(key, 'UTF8')), 'hex'), 16)`

// filter is the condition of what is listed beyond scope and tool, with its parameters from
// $next on.
func (l *Listing) filter(next int) (where string, args []any) {
	for _, f := range []struct{ expression, value string }{{"outcome", l.Outcome}, {keyHashSQL, l.KeyHash}} {
		if f.value != "" {
			where += fmt.Sprintf(" AND %s = $%d::text", f.expression, next+len(args))
			args = append(args, f.value)
		}
	}
	return where, args
}

// Record is a record without its result, as `dedup list --json` writes it.
type Record struct {
	Scope       string    `json:"scope"`
	Tool        string    `json:"tool"`
	Key         string    `json:"key"`
	State       string    `json:"state"`
	Outcome     string    `json:"outcome"`
	ResultBytes *int64    `json:"result_bytes,omitempty"`
	Fingerprint string    `json:"fingerprint"`
	CreatedAt   time.Time `json:"created_at"`
	ExpiresAt   time.Time `json:"expires_at"`
	ForgetAt    time.Time `json:"forget_at"`
	Cursor      string    `json:"cursor,omitempty"`
	Now         time.Time `json:"-"` // when it was read
}

// byKey is where a record stands in the order of keys.
type byKey struct{ Key string }

// Records reads at most limit records that come after a cursor.
func (db *Database) Records(ctx context.Context, l *Listing, after string, limit int) (page Page[Record], err error) {
	at, err := place[byKey](after)
	if err != nil {
		return page, err
	}
	err = db.read(ctx, func(r *reader) error {
		var last *string // nil where no record is looked at that is not listed
		if l.Outcome != "" || l.KeyHash != "" {
			if _, err := r.first(searchedSQL(r.table("tool_dedup"), at.Key, searched), l.args(at.Key), &last); err != nil {
				return err
			}
		}
		sql, args := l.listSQL(r.table("tool_dedup"), at.Key, last, limit+1) // one more says that there is more
		found, err := collect(r, scanRecord, sql, args...)
		page = cut(found, limit, func(r *Record) string {
			r.Cursor = cursor(byKey{r.Key})
			return r.Cursor
		})
		if page.Next == "" && last != nil {
			page.Next = cursor(byKey{*last})
		}
		return err
	})
	return page, err
}

// below is the condition of what comes after a key, and empty where the list begins. It is a
// part of the text: a condition that may be empty is none that an index serves.
func below(after string) string {
	if after == "" {
		return ""
	}
	return " AND key < $3::text"
}

func (l *Listing) args(after string) []any {
	if after == "" {
		return []any{l.Scope, l.Tool}
	}
	return []any{l.Scope, l.Tool, after}
}

// searchedSQL finds the last key that a search goes to.
func searchedSQL(table, after string, searched int) string {
	return fmt.Sprintf(`SELECT key FROM %s
 WHERE scope = $1::text AND tool = $2::text%s
 ORDER BY key DESC OFFSET %d LIMIT 1`, table, below(after), searched-1)
}

// recordColumns are those of a record, in the order of its fields. The size of a result is
// read without it.
const recordColumns = `scope, tool, key, outcome, octet_length(result), encode(fingerprint, 'hex'), created_at, expires_at, forget_at, clock_timestamp()`

// listSQL reads a page, down to a key where last is not nil.
func (l *Listing) listSQL(table, after string, last *string, limit int) (sql string, args []any) {
	args = l.args(after)
	filter, values := l.filter(len(args) + 1)
	args, where := append(args, values...), below(after)+filter
	if last != nil {
		args = append(args, *last)
		where += fmt.Sprintf(" AND key >= $%d::text", len(args))
	}
	return fmt.Sprintf(`SELECT %s FROM %s
 WHERE scope = $1::text AND tool = $2::text%s
 ORDER BY key DESC LIMIT %d`, recordColumns, table, where, limit), args
}

func scanRecord(row pgx.CollectableRow) (r Record, err error) {
	err = row.Scan(&r.Scope, &r.Tool, &r.Key, &r.Outcome, &r.ResultBytes, &r.Fingerprint, &r.CreatedAt, &r.ExpiresAt, &r.ForgetAt, &r.Now)
	r.CreatedAt, r.ExpiresAt, r.ForgetAt = r.CreatedAt.UTC(), r.ExpiresAt.UTC(), r.ForgetAt.UTC()
	switch broken := r.Outcome == "broken" || r.Outcome == "claimed"; {
	case !r.Now.Before(r.ForgetAt):
		r.State = "forgotten"
	case broken:
		r.State = "broken"
	case r.ResultBytes == nil || !r.Now.Before(r.ExpiresAt):
		r.State = "expired"
	default:
		r.State = r.Outcome
	}
	return r, err
}
