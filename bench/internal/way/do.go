package way

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// Do is [dedup.Do].
func Do() Way {
	return Way{
		Name: "do", Title: "dedup.Do", Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := newDeduper(ctx, env, nil)
			return do{s}, err
		},
	}
}

// deduper is the part of a session that all ways of the library share.
type deduper struct {
	onePool
	d *dedup.Deduper
}

func newDeduper(ctx context.Context, env Env, opts *dedup.Options) (deduper, error) {
	pool, err := newPool(ctx, env.Postgres, env.Clients)
	if err != nil {
		return deduper{}, err
	}
	d, err := dedup.New(pool, opts)
	if err != nil {
		pool.Close()
		return deduper{}, err
	}
	return deduper{onePool{pool}, d}, nil
}

// call is the call with the key.
func call(key string) dedup.Call {
	return dedup.Call{Scope: scope, Tool: tool, Key: key, Args: args{Ref: key}}
}

type do struct{ deduper }

func (s do) Call(ctx context.Context, keys []string) error {
	_, err := dedup.Do(ctx, s.d, call(keys[0]), book(keys[0]))
	return err
}

// book is the effect as a function.
func book(ref string) dedup.Effect[row] {
	return func(ctx context.Context, tx pgx.Tx) (r row, err error) {
		err = tx.QueryRow(ctx, effect, ref).Scan(&r.ID)
		return r, err
	}
}
