package way

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/external"
)

// External is [external.Handle.Do]. An INSERT that commits by itself stands for the
// provider: one trip, as many as a provider's.
func External() Way {
	return Way{
		Name: "external", Title: "external.Do", Batch: 1, Replays: true, OneKey: true,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := newExternal(ctx, env)
			return outside{s}, err
		},
	}
}

// ExternalAccept is an outbox: [external.Handle.Accept] in the transaction of a write.
func ExternalAccept() Way {
	return Way{
		Name: "accept", Title: "external.Accept", Batch: 1,
		Prepare: createRecords,
		Open: func(ctx context.Context, env Env) (Session, error) {
			s, err := newExternal(ctx, env)
			return accept{s}, err
		},
	}
}

// provided is a Deduper with a tool that acts outside of the database.
type provided struct {
	deduper
	tools  *external.Tools
	handle *external.Handle[args, row]
}

func newExternal(ctx context.Context, env Env) (provided, error) {
	s, err := newDeduper(ctx, env, nil)
	if err != nil {
		return provided{}, err
	}
	tools, err := external.New(s.d, nil)
	if err != nil {
		s.pool.Close()
		return provided{}, err
	}
	handle, err := external.Add(tools, external.Tool[args, row]{
		Name: tool,
		Perform: func(ctx context.Context, _ external.Attempt, in args) (r row, err error) {
			err = s.pool.QueryRow(ctx, effect, in.Ref).Scan(&r.ID)
			return r, err
		},
		Ref:     func(out row) string { return strconv.Itoa(out.ID) },
		KeyKept: 24 * time.Hour,
	})
	if err != nil {
		s.pool.Close()
		return provided{}, err
	}
	return provided{s, tools, handle}, nil
}

// Close waits for what the tools still do.
func (s provided) Close() error {
	err := s.tools.Close(context.Background())
	return errors.Join(err, s.deduper.Close())
}

type outside struct{ provided }

func (s outside) Call(ctx context.Context, keys []string) error {
	_, err := s.handle.Do(ctx, call(keys[0]), args{Ref: keys[0]})
	return err
}

type accept struct{ provided }

func (s accept) Call(ctx context.Context, keys []string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var id int
		if err := tx.QueryRow(ctx, effect, keys[0]).Scan(&id); err != nil {
			return err
		}
		_, err := s.handle.Accept(ctx, tx, call(keys[0]), args{Ref: keys[0]})
		return err
	})
}
