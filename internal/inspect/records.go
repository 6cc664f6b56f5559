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
)

// Listing is which records are listed. Outcome is empty for all, and so is KeyHash, which is that of
// package dedup. Without Since the greatest key comes first. With it those are listed that were created in the time
// before now, the newest first.
type Listing struct {
	Scope, Tool, Outcome, KeyHash string
	Since                         time.Duration
}

// args are the parameters of a listing.
func (l *Listing) args() pgx.NamedArgs {
	return pgx.NamedArgs{"scope": l.Scope, "tool": l.Tool, "outcome": l.Outcome, "hash": l.KeyHash}
}

const (
	ofTool    = "scope = @scope::text AND tool = @tool::text"
	ofOutcome = "outcome = @outcome::text"
	// ofHash compares the dedup.KeyHash of a record's key.
	ofHash = `left(encode(sha256('dedup/key-hash/v1'::bytea || int8send(octet_length(convert_to(key, 'UTF8'))) || convert_to(key, 'UTF8')), 'hex'), 16) = @hash::text`
	// behind is what comes behind a key.
	behind = "key < @after::text"
)

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
func (db *Database) Records(ctx context.Context, l *Listing, after string, limit int) (page Page[Record], retentions []time.Duration, err error) {
	if l.Since != 0 {
		return db.since(ctx, l, after, limit)
	}
	page, err = pageOf(ctx, db, "records", after, limit, func(r *reader, at place, limit int) (found []Record, rest place, err error) {
		if l.Outcome != "" || l.KeyHash != "" { // records are looked at that are not listed
			if _, err := r.first(l.searchEnd(at.Key, searched), &rest.Key); err != nil {
				return nil, rest, err
			}
		}
		found, err = collect[Record](r, l.query(at.Key, rest.Key, limit))
		return found, rest, err
	})
	return page, nil, err
}

// searchEnd finds the last key that a search goes to.
func (l *Listing) searchEnd(after string, searched int) query {
	args := l.args()
	args["after"] = after
	return query{fmt.Sprintf(`SELECT key FROM {dedup}
 WHERE %s
 ORDER BY key DESC OFFSET %d LIMIT 1`, where(args, ofTool, behind), searched-1), args}
}

// query reads the records behind one key, and down to another.
func (l *Listing) query(after, last string, limit int) query {
	args := l.args()
	args["after"], args["last"] = after, last
	return query{fmt.Sprintf(`SELECT %s FROM {dedup}
 WHERE %s
 ORDER BY key DESC LIMIT %d`, recordColumns, where(args, ofTool, behind, "key >= @last::text", ofOutcome, ofHash), limit), args}
}

// Latest reads the latest records that are kept as long as those of the Deduper, among those that
// the index of due records has last. The Listing names a scope, a tool and an outcome, or none of
// them; scopes are those that are looked at, and nil means all.
func (db *Database) Latest(ctx context.Context, l *Listing, scopes []string, limit int) (found []Record, err error) {
	err = db.read(ctx, func(r *reader) (err error) {
		found, err = collect[Record](r, l.latest(scopes, db.D.Options().Retention.Result, limit))
		return err
	})
	return found, err
}

// latest begins where records are due that are made now. Tombstones and records that are
// kept for longer may lie there as well.
func (l *Listing) latest(scopes []string, kept time.Duration, limit int) query {
	args := l.args()
	args["scopes"], args["kept"] = scopes, kept
	return query{fmt.Sprintf(`SELECT %s FROM (
       SELECT * FROM {dedup} WHERE {due} <= now() + @kept::interval
        ORDER BY {due} DESC LIMIT %d) AS last
 WHERE result IS NOT NULL AND %s
 ORDER BY created_at DESC, key DESC LIMIT %d`, recordColumns, latestSearched,
		where(args, "scope = @scope::text", "tool = @tool::text", ofOutcome, "scope = ANY (@scopes::text[])"), limit), args}
}

// Greatest reads the record with the greatest key of each tool that has records, in one round
// trip.
func (db *Database) Greatest(ctx context.Context, tools []ScopedTool) (found []Record, err error) {
	err = db.read(ctx, func(r *reader) error {
		var batch pgx.Batch
		for _, t := range tools {
			q := (&Listing{Scope: t.Scope, Tool: t.Tool}).query("", "", 1)
			batch.Queue(q.text(r.schema), q.args).Query(func(rows pgx.Rows) (err error) {
				found, err = pgx.AppendRows(found, rows, pgx.RowToStructByPos[Record])
				return err
			})
		}
		return r.SendBatch(ctx, &batch).Close()
	})
	return found, err
}
