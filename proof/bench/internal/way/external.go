package way

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// externalDo is [external.Handle.Do].
func externalDo(_ context.Context, s *Session) (caller, error) {
	_, handle, err := provider(s)
	return func(ctx context.Context, keys []string) error {
		_, err := handle.Do(ctx, call(keys[0]), args{Ref: keys[0]})
		return err
	}, err
}

// externalAccept is an outbox: [external.Handle.Accept] in the transaction of a write.
// [dedup.Deduper.BeginFunc] runs the transaction again if Accept asks for it.
func externalAccept(_ context.Context, s *Session) (caller, error) {
	d, handle, err := provider(s)
	return func(ctx context.Context, keys []string) error {
		return d.BeginFunc(ctx, func(tx pgx.Tx) error {
			if _, err := insert(ctx, tx, keys[0]); err != nil {
				return err
			}
			_, err := handle.Accept(ctx, tx, call(keys[0]), args{Ref: keys[0]})
			return err
		})
	}, err
}

// provider adds a tool that acts outside the database. Its provider is an INSERT that commits
// alone: one trip, as to a provider.
func provider(s *Session) (*dedup.Deduper, *external.Handle[args, row], error) {
	d, err := dedup.New(s.Pool, nil)
	if err != nil {
		return nil, nil, err
	}
	tools, err := external.New(d, nil)
	if err != nil {
		return nil, nil, err
	}
	s.atEnd(func() error { return tools.Close(context.Background()) }) // waits for running operations
	handle, err := external.Add(tools, external.Tool[args, row]{
		Name: Tool,
		Perform: func(ctx context.Context, _ external.Attempt, in args) (row, error) {
			return insert(ctx, s.Pool, in.Ref)
		},
		Ref:     func(out row) string { return strconv.Itoa(out.ID) },
		KeyKept: 24 * time.Hour,
	})
	return d, handle, err
}
