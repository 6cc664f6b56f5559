package scale

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// ticket is what the measured tool answers: a reference and a line of text, as
// most write tools do.
type ticket struct {
	ID    int64  `json:"id"`
	Title string `json:"title"`
}

type ticketArgs struct {
	Title    string `json:"title"`
	Priority string `json:"priority"`
}

const title = "printer on fire"

// ticketCall is the measured call. Its record has the size of a usual one.
func ticketCall(key string) dedup.Call {
	return dedup.Call{
		Scope: "acme", Tool: "create_ticket", Key: key,
		Args: ticketArgs{Title: title, Priority: "high"},
	}
}

// tool is the measured tool on one schema's tables.
type tool struct {
	d      *dedup.Deduper
	pool   *pgxpool.Pool
	insert string
}

func newTool(pool *pgxpool.Pool, opts dedup.Options) (*tool, error) {
	d, err := dedup.New(pool, &opts)
	if err != nil {
		return nil, err
	}
	effects := pgx.Identifier{opts.Schema, "effects"}.Sanitize()
	return &tool{d: d, pool: pool, insert: "INSERT INTO " + effects + " (ref) VALUES ($1) RETURNING id"}, nil
}

// call runs the tool once for the key.
func (t *tool) call(ctx context.Context, key string) (dedup.Result[ticket], error) {
	return dedup.Do(ctx, t.d, ticketCall(key), t.effectOf(key))
}

// effectOf is the tool's effect for the key.
func (t *tool) effectOf(key string) func(context.Context, pgx.Tx) (ticket, error) {
	return func(ctx context.Context, tx pgx.Tx) (ticket, error) { return t.effect(ctx, tx, key) }
}

// bare is the same effect in a transaction without a record: what a call is
// measured against.
func (t *tool) bare(ctx context.Context, key string) error {
	return pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		_, err := t.effect(ctx, tx, key)
		return err
	})
}

func (t *tool) effect(ctx context.Context, tx pgx.Tx, ref string) (ticket, error) {
	made := ticket{Title: title}
	err := tx.QueryRow(ctx, t.insert, ref).Scan(&made.ID)
	return made, err
}
