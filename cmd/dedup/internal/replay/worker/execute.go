package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/cmd/dedup/internal/world/effect"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world/tool"
)

// executor executes deliveries, one at a time.
type executor struct {
	pool  *pgxpool.Pool
	tools map[tool.Name]tool.Tool
	write func(ctx context.Context, run runFunc, d Delivery) (Answer, error)
}

// runFunc runs the tool of a delivery on a transaction. Its error may be a
// *tool.Refusal.
type runFunc func(ctx context.Context, tx pgx.Tx) (string, error)

func (e *executor) deliver(ctx context.Context, d Delivery) Answer {
	answer, err := e.execute(ctx, d)
	answer.ID = d.ID
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func (e *executor) execute(ctx context.Context, d Delivery) (Answer, error) {
	named, ok := e.tools[tool.Name{Domain: d.Domain, Tool: d.Tool}]
	if !ok {
		return Answer{}, fmt.Errorf("no tool %s in domain %s", d.Tool, d.Domain)
	}
	ctx = effect.WithCallRef(ctx, d.Ref)
	run := func(ctx context.Context, tx pgx.Tx) (string, error) {
		return named.Run(ctx, tx, d.Args)
	}
	if !d.Write {
		return e.plain(ctx, run)
	}
	return e.write(ctx, run, d)
}

// plain runs a tool in a transaction of its own, once. A refusal rolls it back
// and is the answer.
func (e *executor) plain(ctx context.Context, run runFunc) (Answer, error) {
	var text string
	err := pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) (err error) {
		text, err = run(ctx, tx)
		return err
	})
	var refusal *tool.Refusal
	if errors.As(err, &refusal) {
		return Answer{Text: refusal.Answer()}, nil
	}
	return Answer{Text: text}, err
}
