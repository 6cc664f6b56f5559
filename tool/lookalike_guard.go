package tool

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// likeness names what lookalikes have in common.
type likeness [sha256.Size]byte

func likenessOf(c *call, session string) (likeness, error) {
	fingerprint, err := dedup.FingerprintOf(c.Args)
	if err != nil {
		return likeness{}, err
	}
	var b []byte
	for _, part := range []string{"tool_lookalike/v1", c.Scope, session, c.Tool, string(fingerprint[:])} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b), nil
}

// lock is the advisory lock for which lookalikes that run at once take turns.
func (l likeness) lock() int64 { return int64(binary.BigEndian.Uint64(l[:8])) }

// runGuarded is runKeyed for a tool whose guard looks for lookalikes.
func (r *Registry) runGuarded(ctx context.Context, t *definition, c *call, inv Invocation) (Answer, error) {
	like, err := likenessOf(c, inv.Session)
	if err != nil {
		return Answer{}, err
	}
	g := &lookalikeGuard{table: pgx.Identifier{r.d.Options().Schema, "tool_lookalike"}.Sanitize(), like: like, key: c.Key, window: t.Lookalikes.window()}
	var earlier *sighting
	run := c.run
	c.run = func(ctx context.Context, tx pgx.Tx) (json.RawMessage, error) {
		seen, err := g.enter(ctx, tx)
		if err != nil {
			return nil, err
		}
		earlier = seen
		if seen != nil && t.Lookalikes.Action == Refuse && !inv.Confirmed {
			return nil, dedup.NotFinal(errLooksAlike)
		}
		return run(ctx, tx)
	}

	answer, err := r.runKeyed(ctx, c)
	if err == nil && answer.Replayed {
		if earlier, err = g.before(ctx, r.d); err != nil {
			return Answer{}, err
		}
	}
	refused := errors.Is(err, errLooksAlike)
	if earlier == nil || err != nil && !refused {
		return answer, err
	}
	alike := Lookalike{KeyHash: dedup.KeyHash(earlier.key), At: earlier.at}
	status, err := r.d.Lookup(ctx, c.Scope, c.Tool, earlier.key)
	if err != nil {
		return Answer{Key: c.Key, Scope: c.Scope}, fmt.Errorf("tool: looking up the call that this one equals: %w", err)
	}
	alike.Result = status.Result
	if r.opts.OnLookalike != nil && !answer.Replayed {
		r.opts.OnLookalike(LookalikeEvent{
			Scope: c.Scope, Tool: c.Tool, KeyHash: dedup.KeyHash(c.Key), Earlier: alike,
			Action: t.Lookalikes.Action, Confirmed: inv.Confirmed,
		})
	}
	if refused {
		return answer, &LookalikeError{Tool: c.Tool, KeyHash: dedup.KeyHash(c.Key), Earlier: alike}
	}
	answer.Lookalike = &alike
	return answer, nil
}

var errLooksAlike = errors.New("tool: an equal call was made under another key")

// sighting is an earlier call that a call equals.
type sighting struct {
	key string
	at  time.Time
}

// lookalikeGuard is the guard of one call.
type lookalikeGuard struct {
	table  string
	like   likeness
	key    string
	window time.Duration
}

// enter writes the call down and returns the latest one before it. It is the
// first that the call's transaction does, so that the lock is taken before any
// other. The look is a statement of its own: its snapshot must be younger than
// the lock. At stricter levels than READ COMMITTED it is not, and two lookalikes
// that run at once may miss each other.
func (g *lookalikeGuard) enter(ctx context.Context, tx pgx.Tx) (*sighting, error) {
	b := &pgx.Batch{}
	b.Queue(`SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)`, g.like.lock())
	b.Queue(g.selectBefore(`pg_catalog.clock_timestamp()`), g.like[:], g.key, g.window.Microseconds())
	b.Queue(fmt.Sprintf(`INSERT INTO %s (likeness, key, at, until)
VALUES ($1::bytea, $2::text, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $3::bigint * interval '1 microsecond')
ON CONFLICT (likeness, key) DO UPDATE SET at = EXCLUDED.at, until = EXCLUDED.until`, g.table), g.like[:], g.key, g.window.Microseconds())
	// More than one for each that comes, so that the table does not grow on.
	b.Queue(fmt.Sprintf(`DELETE FROM %[1]s WHERE ctid = ANY (ARRAY(
       SELECT ctid FROM %[1]s WHERE until <= pg_catalog.clock_timestamp() ORDER BY until LIMIT 2 FOR UPDATE SKIP LOCKED))`, g.table))
	results := tx.SendBatch(ctx, b)
	_, err := results.Exec()
	var seen *sighting
	if err == nil {
		seen, err = scanSighting(results.QueryRow())
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, fmt.Errorf("tool: looking for a call that this one equals: %w", err)
	}
	return seen, nil
}

// before returns the latest call before one that has a record.
func (g *lookalikeGuard) before(ctx context.Context, d *dedup.Deduper) (*sighting, error) {
	own := fmt.Sprintf(`(SELECT own.at FROM %s AS own WHERE own.likeness = $1::bytea AND own.key = $2::text)`, g.table)
	seen, err := scanSighting(d.Pool().QueryRow(ctx, g.selectBefore(own), g.like[:], g.key, g.window.Microseconds()))
	if err != nil {
		return nil, fmt.Errorf("tool: looking for a call that this one equals: %w", err)
	}
	return seen, nil
}

// selectBefore selects the latest call before a moment.
func (g *lookalikeGuard) selectBefore(moment string) string {
	return fmt.Sprintf(`SELECT key, at FROM %s
 WHERE likeness = $1::bytea AND key <> $2::text
   AND at <= %[2]s AND at > %[2]s - $3::bigint * interval '1 microsecond'
 ORDER BY at DESC LIMIT 1`, g.table, moment)
}

func scanSighting(row pgx.Row) (*sighting, error) {
	var s sighting
	switch err := row.Scan(&s.key, &s.at); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &s, nil
}
