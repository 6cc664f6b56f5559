// Package sqldedup stands in for that of the library, as far as the cases use it.
package sqldedup

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

type Handle interface{ *sql.Tx | *sql.DB }

type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func Effect[H Handle, R any](fn func(ctx context.Context, handle H) (R, error)) dedup.Effect[R] {
	return nil
}

func Run[H Handle, R any](ctx context.Context, tx pgx.Tx, fn func(ctx context.Context, handle H) (R, error)) (result R, err error) {
	return result, nil
}

func DoTx[R any](ctx context.Context, d *dedup.Deduper, tx Tx, call dedup.Call, effect func(ctx context.Context) (R, error)) (dedup.Result[R], error) {
	return dedup.Result[R]{}, nil
}

func BeginFunc[H Handle](ctx context.Context, d *dedup.Deduper, fn func(handle H) error) error {
	return nil
}
