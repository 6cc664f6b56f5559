package effects

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// Every function that dedup calls with a transaction is an effect.

func literal(ctx context.Context, d *dedup.Deduper, tx pgx.Tx, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) { // want "effect"
		dedup.DoTx(ctx, d, tx, call, func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil }) // want "effect"
		return helper(), nil
	})
	dedup.Do(ctx, d, call, named)
	dedup.Do(ctx, d, call, generic[string])
	dedup.Do(ctx, d, call, service{}.method)
	local := func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil } // want "effect"
	dedup.Do(ctx, d, call, local)
	dedup.Do(ctx, d, call, made("seat"))
	dedup.Do(ctx, d, call, dedup.Effect[int](converted))
	run(ctx, d, call, passedOn)
}

func named(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil } // want "effect"

func generic[T any](ctx context.Context, tx pgx.Tx) (t T, err error) { return t, nil } // want "effect"

func converted(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil } // want "effect"

type service struct{ effect dedup.Effect[int] }

func (service) method(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil } // want "effect"

func made(seat string) func(context.Context, pgx.Tx) (int, error) {
	return func(ctx context.Context, tx pgx.Tx) (int, error) { return len(seat), nil } // want "effect"
}

func run(ctx context.Context, d *dedup.Deduper, call dedup.Call, effect func(context.Context, pgx.Tx) (int, error)) {
	dedup.Do(ctx, d, call, effect)
}

func passedOn(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil } // want "effect"

var declared dedup.Effect[int] = func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil } // want "effect"

func returned() dedup.Effect[int] {
	return func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil } // want "effect"
}

func fields(s *service) {
	s.effect = func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil }                                   // want "effect"
	_ = service{func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil }}                                 // want "effect"
	_ = &tool.Tool[string, int]{Run: func(ctx context.Context, tx pgx.Tx, in string) (int, error) { return 1, nil }} // want "effect"
	_ = map[string]dedup.Effect[int]{"seat": func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil }}    // want "effect"
	_ = []dedup.Effect[int]{func(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil }}                     // want "effect"
	var opts dedup.SweepOptions
	opts.Archive = func(ctx context.Context, tx pgx.Tx, batch []dedup.SweptRecord) error { return nil } // want "effect"
}

// Functions that effects call run in them.

func helper() int { // want "helper"
	deeper := func() int { return further() }
	return deeper()
}

func further() int { return further() } // want "helper"

// And this is neither.

func transaction(ctx context.Context, pool *pgxpool.Pool) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return insert(ctx, tx) })
}

func insert(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT")
	return err
}

func unused() int { return helper() }
