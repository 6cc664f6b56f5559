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
	"github.com/jackc/pgx/v5/pgconn"

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
func (r *Registry) runGuarded(ctx context.Context, t *definition, c *call) (Answer, error) {
	like, err := likenessOf(c, c.inv.Session)
	if err != nil {
		return Answer{Key: c.Key, Scope: c.Scope}, err
	}
	g := r.guard(t, c, like)
	var earlier *Lookalike
	run := c.run
	c.run = func(ctx context.Context, tx pgx.Tx) (_ json.RawMessage, err error) {
		if earlier, err = g.enter(ctx, tx); err != nil {
			// Stored as an answer it would stay one when the table is repaired.
			return nil, dedup.NotFinal(err)
		}
		if earlier != nil && t.Lookalikes.Action == Refuse && !c.inv.Confirmed {
			return nil, dedup.NotFinal(errLooksAlike)
		}
		return run(ctx, tx)
	}

	answer, err := r.runKeyed(ctx, c)
	// Beside an outcome that is unknown it is no proof that nothing was run.
	refused := errors.Is(err, errLooksAlike) && !dedup.IsRetryable(err)
	if err != nil && !refused {
		return answer, err
	}
	if g.cleansAfter && !answer.Replayed {
		// An error is no matter of this call: what it leaves is deleted by a later one.
		_, _ = r.d.Pool().Exec(ctx, g.tables.cleanSQL())
	}
	if answer.Replayed {
		if earlier, err = g.recall(ctx, r.d); err != nil {
			return Answer{Key: c.Key, Scope: c.Scope}, err
		}
	}
	if earlier != nil && r.opts.OnLookalike != nil && (!answer.Replayed || answer.Recovered) {
		r.opts.OnLookalike(LookalikeEvent{
			Scope: c.Scope, Tool: c.Tool, KeyHash: dedup.KeyHash(c.Key), Earlier: *earlier,
			Action: t.Lookalikes.Action, Confirmed: c.inv.Confirmed,
		})
	}
	if refused {
		return answer, &LookalikeError{Tool: c.Tool, KeyHash: dedup.KeyHash(c.Key), Earlier: *earlier}
	}
	answer.Lookalike = earlier
	return answer, nil
}

var errLooksAlike = errors.New("tool: an equal call was made under another key")

// lookalikeGuard is the guard of one call.
type lookalikeGuard struct {
	tables guardTables
	call   *call
	like   likeness
	window time.Duration
	// kept is for how long the call's row is: as long as it may be the earlier
	// call of another, and as long as its own answer is replayed with its mark.
	kept time.Duration
	// cleansAfter is true where a transaction keeps its snapshot: there it fails when another
	// call has deleted a row meanwhile that it wants to delete.
	cleansAfter bool
}

// guardTables are the quoted names of the tables.
type guardTables struct{ seen, records string }

func (r *Registry) guard(t *definition, c *call, like likeness) *lookalikeGuard {
	opts := r.d.Options()
	return &lookalikeGuard{
		tables: guardTables{
			seen:    pgx.Identifier{opts.Schema, "tool_lookalike"}.Sanitize(),
			records: pgx.Identifier{opts.Schema, "tool_dedup"}.Sanitize(),
		},
		call: c, like: like, window: t.Lookalikes.window(),
		kept:        max(t.Lookalikes.window(), t.Retention.Or(opts.Retention).Result),
		cleansAfter: opts.Isolation != pgx.ReadCommitted,
	}
}

// enter writes the call down and returns the latest one before it. It is the
// first that the call's transaction does, so that the lock is taken before any
// other. The look is a statement of its own: its snapshot must be younger than
// the lock. At SERIALIZABLE it is not, and Postgres itself finds out.
func (g *lookalikeGuard) enter(ctx context.Context, tx pgx.Tx) (*Lookalike, error) {
	b := &pgx.Batch{}
	b.Queue(`SELECT pg_catalog.pg_advisory_xact_lock($1::bigint)`, g.like.lock())
	b.Queue(g.tables.enterSQL(), g.like[:], g.call.Key, g.window.Microseconds(), g.kept.Microseconds(), g.call.Scope, g.call.Tool)
	if !g.cleansAfter {
		b.Queue(g.tables.cleanSQL())
	}
	results := tx.SendBatch(ctx, b)
	_, err := results.Exec()
	var seen *Lookalike
	if err == nil {
		seen, err = scanLookalike(results.QueryRow())
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return seen, g.explained(err)
}

// recall returns what the call was told when it ran. The call is answered already:
// where no server has said what is wrong, it can be asked for its answer again.
func (g *lookalikeGuard) recall(ctx context.Context, d *dedup.Deduper) (*Lookalike, error) {
	seen, err := scanLookalike(d.Pool().QueryRow(ctx, g.tables.recallSQL(), g.like[:], g.call.Key, g.call.Scope, g.call.Tool))
	err = g.explained(err)
	var server *pgconn.PgError
	if err != nil && ctx.Err() == nil && !errors.As(err, &server) {
		err = &dedup.Error{Answer: dedup.ErrOutcomeUnknown, Attempts: 1, Err: err}
	}
	return seen, err
}

func scanLookalike(row pgx.Row) (*Lookalike, error) {
	var key string
	var result *string
	var seen Lookalike
	switch err := row.Scan(&key, &seen.At, &result); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	seen.KeyHash = dedup.KeyHash(key)
	if result != nil {
		seen.Result = json.RawMessage(*result)
	}
	return &seen, nil
}

func (g *lookalikeGuard) explained(err error) error {
	if err == nil {
		return nil
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		switch server.Code {
		case "42P01", "42703": // no such table, no such column
			return fmt.Errorf("tool: the look-alike guard of %s needs the table %s: run `dedup migrate up`, or leave Lookalikes out: %w", g.call.Tool, g.tables.seen, err)
		case "42501": // no privilege
			return fmt.Errorf("tool: the look-alike guard of %s may not use the table %s: grant SELECT, INSERT, UPDATE and DELETE: %w", g.call.Tool, g.tables.seen, err)
		}
	}
	return fmt.Errorf("tool: looking for a call that this one of %s equals: %w", g.call.Tool, err)
}
