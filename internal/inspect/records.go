package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Outcomes are those that a record may have.
var Outcomes = []string{"done", "refused", "broken", "claimed"}

const (
	// searched is how many records are looked at for a page of one outcome.
	searched = 20_000
	// latestSearched is how many are looked at for the latest ones.
	latestSearched = 2000
	// findable is how many are looked at for one key.
	findable = 10 * searched
)

// Filter is what of a list is read. What is empty is not asked for.
type Filter struct {
	// KeyHash is that of package dedup.
	Scope, Tool, Key, Outcome, KeyHash string
	// Scopes are those that are looked at; nil means all.
	Scopes []string
	// Since has records listed that were created in the time before now, the newest first. Without it the greatest
	// key comes first.
	Since time.Duration
}

// args are the parameters of a filter.
func (f *Filter) args() pgx.NamedArgs {
	return pgx.NamedArgs{"scope": f.Scope, "tool": f.Tool, "key": f.Key, "outcome": f.Outcome, "hash": f.KeyHash, "scopes": f.Scopes}
}

const (
	ofTool = "scope = @scope::text AND tool = @tool::text"
	// behind is what comes behind a key.
	behind = "key < @after::text"
	// ofHash compares the dedup.KeyHash of a key.
	ofHash = `left(encode(sha256('dedup/key-hash/v1'::bytea || int8send(octet_length(convert_to(key, 'UTF8'))) || convert_to(key, 'UTF8')), 'hex'), 16) = @hash::text`
)

// filtered joins the conditions of a filter with others.
func filtered(args pgx.NamedArgs, others ...string) string {
	return where(args, append([]string{
		"scope = @scope::text", "scope = ANY (@scopes::text[])", "tool = @tool::text", "key = @key::text", "outcome = @outcome::text", ofHash,
	}, others...)...)
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
	Entry
}

func (r *Record) place() place { return place{At: r.CreatedAt, Key: r.Key} }

// recordColumns are those of a Record. The size of a result is read without it.
const recordColumns = `scope, tool, key,
       CASE WHEN forget_at <= clock_timestamp() THEN 'forgotten'
            WHEN outcome IN ('broken', 'claimed') THEN 'broken'
            WHEN result IS NULL OR expires_at <= clock_timestamp() THEN 'expired'
            ELSE outcome END,
       outcome, octet_length(result), encode(fingerprint, 'hex'),
       created_at AT TIME ZONE 'UTC', expires_at AT TIME ZONE 'UTC', forget_at AT TIME ZONE 'UTC', clock_timestamp()`

// Records reads at most limit records that come after a cursor. Those of a Since are of the retentions that it
// returns.
func (db *Database) Records(ctx context.Context, f *Filter, after string, limit int) (page Page[Record], retentions []time.Duration, err error) {
	if f.Since != 0 {
		return db.since(ctx, f, after, limit)
	}
	page, err = pageOf(ctx, db, "records", after, limit, func(r *reader, at place, limit int) (found []Record, rest place, err error) {
		if f.Outcome != "" || f.KeyHash != "" { // records are looked at that are not listed
			if _, err := r.first(f.searchEnd(at.Key, searched), &rest.Key); err != nil {
				return nil, rest, err
			}
		}
		found, err = collect[Record](r, f.query(at.Key, rest.Key, limit))
		return found, rest, err
	})
	return page, nil, err
}

// searchEnd finds the last key that a search goes to.
func (f *Filter) searchEnd(after string, searched int) query {
	args := f.args()
	args["after"] = after
	return query{fmt.Sprintf(`SELECT key FROM {dedup}
 WHERE %s
 ORDER BY key DESC OFFSET %d LIMIT 1`, where(args, ofTool, behind), searched-1), args}
}

// query reads the records behind one key, and down to another.
func (f *Filter) query(after, last string, limit int) query {
	args := f.args()
	args["after"], args["last"] = after, last
	return query{fmt.Sprintf(`SELECT %s FROM {dedup}
 WHERE %s
 ORDER BY key DESC LIMIT %d`, recordColumns, filtered(args, behind, "key >= @last::text"), limit), args}
}

// Find finds the call with a key's hash: by its record, else by its operation outside of the database. It looks at
// findable records and as many operations of the tool, the greatest key first. all is false where there are more: then
// the call may be one of those.
func (db *Database) Find(ctx context.Context, scope, tool, hash string) (key string, found, all bool, err error) {
	f := &Filter{Scope: scope, Tool: tool, KeyHash: hash}
	after := ""
	for range findable / searched {
		page, _, err := db.Records(ctx, f, after, 1)
		switch {
		case err != nil:
			return "", false, false, err
		case len(page.Entries) > 0:
			return page.Entries[0].Key, true, true, nil
		}
		if after = page.Next; after == "" {
			break
		}
	}
	err = db.read(ctx, func(r *reader) (err error) {
		found, err = r.first(f.operation(findable), &key)
		return err
	})
	if IsMissing(err) {
		err = nil
	}
	return key, found, found || after == "", err
}

// operation finds the operation with a key's hash.
func (f *Filter) operation(searched int) query {
	return query{fmt.Sprintf(`SELECT key FROM (
       SELECT key FROM {effect}
        WHERE `+ofTool+`
        ORDER BY key DESC LIMIT %d) AS last
 WHERE `+ofHash+` LIMIT 1`, searched), f.args()}
}

// Latest reads the latest records that are kept as long as those of the Deduper, among those that
// the index of due records has last.
func (db *Database) Latest(ctx context.Context, f *Filter, limit int) (found []Record, err error) {
	err = db.read(ctx, func(r *reader) (err error) {
		found, err = collect[Record](r, f.latest(db.D.Options().Retention.Result, limit))
		return err
	})
	return found, err
}

// latest begins where records are due that are made now. Tombstones and records that are
// kept for longer may lie there as well.
func (f *Filter) latest(kept time.Duration, limit int) query {
	args := f.args()
	args["kept"] = kept
	return query{fmt.Sprintf(`SELECT %s FROM (
       SELECT * FROM {dedup} WHERE {due} <= now() + @kept::interval
        ORDER BY {due} DESC LIMIT %d) AS last
 WHERE result IS NOT NULL AND %s
 ORDER BY created_at DESC, key DESC LIMIT %d`, recordColumns, latestSearched, filtered(args), limit), args}
}

// Greatest reads the record with the greatest key of each tool that has records, in one round
// trip.
func (db *Database) Greatest(ctx context.Context, tools []ScopedTool) (found []Record, err error) {
	err = db.read(ctx, func(r *reader) error {
		var batch pgx.Batch
		for _, t := range tools {
			q := (&Filter{Scope: t.Scope, Tool: t.Tool}).query("", "", 1)
			batch.Queue(q.text(r.schema), q.args).Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.AppendRows(found, rows, pgx.RowToStructByPos[Record])
				return err
			})
		}
		return r.SendBatch(ctx, &batch).Close()
	})
	return found, err
}
