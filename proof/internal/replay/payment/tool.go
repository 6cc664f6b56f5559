package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/world/effect"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// In is what is stored of a call.
type In struct {
	// Ref names the call, in the audit log and for the provider.
	Ref  string          `json:"ref"`
	Args json.RawMessage `json:"args"`
}

// Out is what is recorded of it.
type Out struct {
	// ID is the provider's.
	ID string `json:"id"`
	// Answer is what the tool answers.
	Answer json.RawMessage `json:"answer"`
}

// Handle makes calls of a tool that pays.
type Handle = external.Handle[In, Out]

// Add has a worker run a tool as one of the kind, with the provider at url.
func (k Kind) Add(x *external.Tools, pool *pgxpool.Pool, url, worker string, t kit.Tool) (*Handle, error) {
	p := &payer{kind: k, pool: pool, client: newClient(url, worker), tool: t}
	return external.Add(x, p.external())
}

// payer is a tool that pays. What it changes in the database it changes with the record; what
// it will answer it finds out before it pays, in a transaction that is rolled back.
type payer struct {
	kind   Kind
	pool   *pgxpool.Pool
	client *client
	tool   kit.Tool
}

func (p *payer) external() external.Tool[In, Out] {
	t := external.Tool[In, Out]{
		Name: p.tool.Name, Perform: p.perform, Ref: func(out Out) string { return out.ID },
		KeyKept: p.kind.keyKept(), Settles: p.kind.settles(), Timeout: timeout,
		Finish:  p.finish,
		Refused: func(ctx context.Context, tx pgx.Tx, in In, _ error) error { return note(ctx, tx, in.Ref, refused) },
	}
	if p.kind.finds() {
		t.Find = p.find
	}
	if begins[p.tool.Name] {
		t.Begin = func(ctx context.Context, tx pgx.Tx, in In) error { return note(ctx, tx, in.Ref, begun) }
	}
	return t
}

// Preview returns what a call of the tool would answer now.
func Preview(ctx context.Context, pool *pgxpool.Pool, t kit.Tool, in In) (answer json.RawMessage, err error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	return t.Run(effect.WithCallRef(ctx, in.Ref), tx, in.Args)
}

func (p *payer) perform(ctx context.Context, a external.Attempt, in In) (out Out, err error) {
	out.Answer, err = Preview(ctx, p.pool, p.tool, in)
	if errors.As(err, new(*kit.Refusal)) {
		return out, err
	}
	if err != nil {
		return out, external.NotDone(err)
	}
	key := a.Key
	if p.kind != Keys {
		key = ""
	}
	out.ID, err = p.client.pay(ctx, key, in.Ref)
	return out, err
}

func (p *payer) find(ctx context.Context, _ external.Attempt, in In) ([]Out, error) {
	ids, err := p.client.find(ctx, in.Ref)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	answer, err := Preview(ctx, p.pool, p.tool, in)
	if err != nil {
		return nil, err
	}
	outs := make([]Out, len(ids))
	for i, id := range ids {
		outs[i] = Out{id, answer}
	}
	return outs, nil
}

// finish changes the database, and insists that what was answered is what comes of it.
func (p *payer) finish(ctx context.Context, tx pgx.Tx, in In, out Out) error {
	answer, err := p.tool.Run(effect.WithCallRef(ctx, in.Ref), tx, in.Args)
	if err != nil {
		return dedup.NotFinal(err)
	}
	if !bytes.Equal(answer, out.Answer) {
		return fmt.Errorf("the tool answers %.200s, and before it paid %.200s", answer, out.Answer)
	}
	return note(ctx, tx, in.Ref, finished)
}
