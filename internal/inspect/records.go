package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Outcomes are the outcomes of records.
var Outcomes = []string{"done", "refused", "broken", "claimed"}

const (
	// searched is the most records that are searched for a page of one outcome.
	searched = 20_000
	// latestSearched is the most records that are searched for the latest ones.
	latestSearched = 2000
	// findable is the most records that are searched for one key.
	findable = 10 * searched
)

// Filter limits a list. Empty fields do not limit it.
type Filter struct {
	// KeyHash is dedup.KeyHash of a key.
	Scope, Tool, Key, Outcome, KeyHash string
	// Scopes are the scopes that are read; nil means all.
	Scopes []string
	// Since lists records that were created less than Since ago, the newest first. Without it the
	// greatest key comes first.
	Since time.Duration
}

// args returns the parameters of a filter.
func (f *Filter) args() pgx.NamedArgs {
	return pgx.NamedArgs{"scope": f.Scope, "tool": f.Tool, "key": f.Key, "outcome": f.Outcome, "hash": f.KeyHash, "scopes": f.Scopes}
}

const (
	ofTool = "scope = @scope::text AND tool = @tool::text"
	// behind selects the records after a key, in descending order.
	behind = "key < @after::text"
	// ofHash compares a key's dedup.KeyHash.
	ofHash = `left(encode(sha256('dedup/key-hash/v1'::bytea || int8send(octet_length(convert_to(key, 'UTF8'))) || convert_to(key, 'UTF8')), 'hex'), 16) = @hash::text`
)

// filtered joins the conditions of a filter with others.
func filtered(args pgx.NamedArgs, others ...string) string {
	return where(args, append([]string{
		"scope = @scope::text", "scope = ANY (@scopes::text[])", "tool = @tool::text", "key = @key::text", "outcome = @outcome::text", ofHash,
	}, others...)...)
}

// Record is a record without its result. `dedup list --json` writes it.
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

// recordColumns are the columns of a Record. octet_length gets the size of a result without reading
// it.
const recordColumns = `scope, tool, key,
       CASE WHEN forget_at <= clock_timestamp() THEN 'forgotten'
            WHEN outcome IN ('broken', 'claimed') THEN 'broken'
            WHEN result IS NULL OR expires_at <= clock_timestamp() THEN 'expired'
            ELSE outcome END,
       outcome, octet_length(result), encode(fingerprint, 'hex'),
       created_at AT TIME ZONE 'UTC', expires_at AT TIME ZONE 'UTC', forget_at AT TIME ZONE 'UTC', clock_timestamp()`

// Records reads at most limit records after a cursor. With Since, only records with one of the
// returned retentions are listed.
func (db *Database) Records(ctx context.Context, f *Filter, after string, limit int) (page Page[Record], retentions []time.Duration, err error) {
	if f.Since != 0 {
		return db.since(ctx, f, after, limit)
	}
	page, err = pageOf(ctx, db, "records", after, limit, func(r *reader, at place, limit int) (found []Record, rest place, err error) {
		if f.Outcome != "" || f.KeyHash != "" { // the search skips records
			if _, err := r.first(f.searchEnd(at.Key, searched), &rest.Key); err != nil {
				return nil, rest, err
			}
		}
		found, err = collect[Record](r, f.query(at.Key, rest.Key, limit))
		return found, rest, err
	})
	return page, nil, err
}

// searchEnd selects the last key of a search.
func (f *Filter) searchEnd(after string, searched int) query {
	args := f.args()
	args["after"] = after
	return query{fmt.Sprintf(`SELECT key FROM {dedup}
 WHERE %s
 ORDER BY key DESC OFFSET %d LIMIT 1`, where(args, ofTool, behind), searched-1), args}
}

// query selects the records between two keys, in descending order.
func (f *Filter) query(after, last string, limit int) query {
	args := f.args()
	args["after"], args["last"] = after, last
	return query{fmt.Sprintf(`SELECT %s FROM {dedup}
 WHERE %s
 ORDER BY key DESC LIMIT %d`, recordColumns, filtered(args, behind, "key >= @last::text"), limit), args}
}

// Find finds the call with a key's hash, by its record or else by its operation. It searches
// findable records and as many operations of the tool, the greatest key first. all is false if
// there are more.
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

// operation selects the operation with a key's hash.
func (f *Filter) operation(searched int) query {
	return query{fmt.Sprintf(`SELECT key FROM (
       SELECT key FROM {effect}
        WHERE `+ofTool+`
        ORDER BY key DESC LIMIT %d) AS last
 WHERE `+ofHash+` LIMIT 1`, searched), f.args()}
}

// Latest reads the latest records with the Deduper's default retention. It searches the end of the
// index of due records.
func (db *Database) Latest(ctx context.Context, f *Filter, limit int) (found []Record, err error) {
	err = db.read(ctx, func(r *reader) (err error) {
		found, err = collect[Record](r, f.latest(db.D.Options().Retention, limit))
		return err
	})
	return found, err
}

// latest starts where records that are made now are due. Older tombstones and records with other
// retentions are skipped.
func (f *Filter) latest(of dedup.Retention, limit int) query {
	args := f.args()
	args["kept"] = of.Result
	result := "IS NOT NULL"
	if of.Result < 0 { // no answer is kept
		args["kept"], result = of.Tombstone, "IS NULL"
	}
	return query{fmt.Sprintf(`SELECT %s FROM (
       SELECT * FROM {dedup} WHERE {due} <= now() + @kept::interval
        ORDER BY {due} DESC LIMIT %d) AS last
 WHERE result %s AND %s
 ORDER BY created_at DESC, key DESC LIMIT %d`, recordColumns, latestSearched, result, filtered(args), limit), args}
}

// Greatest reads the record with the greatest key of each tool, in one round trip. Tools without
// records are skipped.
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
