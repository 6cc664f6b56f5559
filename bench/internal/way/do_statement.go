package way

import (
	"context"

	"github.com/tooldedup/dedup"
)

// DoStatement is [dedup.DoStatement]: effect and record are one statement.
func DoStatement() Way {
	return Way{
		Name: "statement", Title: "dedup.DoStatement", Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := newDeduper(ctx, env, nil)
			return doStatement{s}, err
		},
	}
}

type doStatement struct{ deduper }

func (s doStatement) Call(ctx context.Context, keys []string) error {
	_, err := dedup.DoStatement[row](ctx, s.d, call(keys[0]), dedup.SQL(effect, keys[0]))
	return err
}
