package way

import (
	"context"

	"github.com/tooldedup/dedup"
)

// DoLookFirst is [dedup.Do] with Call.LookFirst: one trip more for a first call,
// and one less for a replay.
func DoLookFirst() Way {
	return Way{
		Name: "look-first", Title: "dedup.Do, LookFirst", Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := newDeduper(ctx, env, nil)
			return doLookFirst{s}, err
		},
	}
}

type doLookFirst struct{ deduper }

func (s doLookFirst) Call(ctx context.Context, keys []string) error {
	c := call(keys[0])
	c.LookFirst = true
	_, err := dedup.Do(ctx, s.d, c, book(keys[0]))
	return err
}
