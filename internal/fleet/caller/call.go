package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

const scope, tool = "acme", "write_effect"

// The table effects counts what took effect. Its column gate refers to a row that a test may
// lock, and its CHECK refuses a side of none.
const (
	insert = `INSERT INTO effects (key, side, gate) VALUES ($1, $2, $3) RETURNING id, side`
	free   = "open"
	held   = "gate"
)

// noPaper is a refusal with a code and details.
type noPaper struct{}

func (noPaper) Error() string                { return "no paper" }
func (noPaper) Code() string                 { return "E_PAPER" }
func (noPaper) MarshalJSON() ([]byte, error) { return []byte(`{"tray": 2}`), nil }

// errorText names an error by what a caller acts on.
func errorText(err error) string {
	var refused *dedup.RefusedError
	switch {
	case errors.As(err, &refused):
		return strings.Join([]string{"refused", refused.Message, refused.Code, string(refused.Details)}, "|")
	case errors.Is(err, dedup.ErrKeyReused):
		return "key reused"
	case errors.Is(err, dedup.ErrInFlight):
		return "in flight"
	case errors.Is(err, dedup.ErrExpired):
		return "expired"
	default:
		return err.Error()
	}
}

func outcome(r dedup.Result[effectRow], err error) result {
	if err != nil {
		return result{Replayed: r.Replayed, Err: errorText(err)}
	}
	return result{Effect: r.Value, Replayed: r.Replayed}
}

func (cmd *command) call(key string) dedup.Call {
	call := dedup.Call{Scope: scope, Tool: tool, Key: key, Args: cmd.Args}
	if cmd.Args == nil {
		call.Args = nil
	}
	if cmd.NoWait {
		call.MaxWait = -1
	}
	return call
}

func (c *caller) values(cmd *command, key string) []any {
	gate, side := free, c.side
	if cmd.Gate {
		gate = held
	}
	if cmd.Refuse {
		side = ""
	}
	return []any{key, side, gate}
}

// effect writes a row, or refuses after it has tried to.
func (c *caller) effect(cmd *command, key string) dedup.Effect[effectRow] {
	return func(ctx context.Context, tx pgx.Tx) (row effectRow, err error) {
		values := c.values(cmd, key)
		if cmd.Refuse {
			values[1] = c.side
		}
		err = tx.QueryRow(ctx, insert, values...).Scan(&row.ID, &row.Side)
		if err == nil && cmd.Refuse {
			err = dedup.Final(noPaper{})
		}
		return row, err
	}
}

func (c *caller) statement(cmd *command, key string) dedup.Statement {
	stmt := dedup.SQL(insert, c.values(cmd, key)...)
	stmt.OnError = func(err error) error {
		if cmd.Refuse {
			return dedup.Final(noPaper{})
		}
		return err
	}
	return stmt
}

func (c *caller) call(ctx context.Context, cmd command) (results []result) {
	key := cmd.Keys[0]
	switch cmd.Op {
	case "do":
		return []result{outcome(dedup.Do(ctx, c.d, cmd.call(key), c.effect(&cmd, key)))}
	case "statement":
		return []result{outcome(dedup.DoStatement[effectRow](ctx, c.d, cmd.call(key), c.statement(&cmd, key)))}
	case "dotx":
		return []result{c.callTx(ctx, &cmd, key)}
	}
	calls := func(yield func(dedup.StatementCall) bool) {
		for _, key := range cmd.Keys {
			if !yield(dedup.StatementCall{Call: cmd.call(key), Statement: c.statement(&cmd, key)}) {
				return
			}
		}
	}
	for out := range dedup.DoBatch[effectRow](ctx, c.d, calls, nil) {
		results = append(results, outcome(out.Result, out.Err))
	}
	return results
}

// endTx is a call whose effect ends its own transaction.
func (c *caller) endTx(ctx context.Context, cmd *command, key string) result {
	effect := c.effect(cmd, key)
	return outcome(dedup.Do(ctx, c.d, cmd.call(key), func(ctx context.Context, tx pgx.Tx) (effectRow, error) {
		row, err := effect(ctx, tx)
		return row, errors.Join(err, tx.Conn().PgConn().Exec(ctx, "commit").Close())
	}))
}

// callTx is a DoTx in a transaction of its own, which a refusal commits as well. It is run
// again where it may be.
func (c *caller) callTx(ctx context.Context, cmd *command, key string) (r result) {
	for {
		var asked error
		err := pgx.BeginFunc(ctx, c.d.Pool(), func(tx pgx.Tx) error {
			got, err := dedup.DoTx(ctx, c.d, tx, cmd.call(key), c.effect(cmd, key))
			r, asked = outcome(got, err), err
			var refused *dedup.RefusedError
			if errors.As(err, &refused) {
				return nil
			}
			return err
		})
		if asked == nil && err != nil {
			return result{Err: errorText(err)}
		}
		if asked == nil || errors.Is(asked, dedup.ErrInFlight) || !dedup.IsRetryable(asked) {
			return r
		}
	}
}

func (c *caller) sweep(ctx context.Context, gate bool) (*dedup.SweepResult, error) {
	opts := &dedup.SweepOptions{Rest: -1}
	if gate {
		opts.Archive = func(ctx context.Context, tx pgx.Tx, _ []dedup.SweptRecord) error {
			_, err := tx.Exec(ctx, `SELECT FROM gates WHERE name = $1 FOR KEY SHARE`, held)
			return err
		}
	}
	swept, err := c.d.Sweep(ctx, opts)
	return &swept, err
}

// keys are the keys that the library derives.
func keys(args json.RawMessage) ([]string, error) {
	toolCall, err1 := dedup.KeyFromToolCall("conversation 17", 4, "call_0")
	intent, err2 := dedup.KeyFromIntent("import", "monday", "row", "17")
	merging, err3 := dedup.KeyFromArgsMergingRepeats("conversation 17", args)
	return []string{toolCall, intent, merging, dedup.KeyHash("k")}, errors.Join(err1, err2, err3)
}

// fingerprints are those of arguments of all kinds.
func fingerprints() ([]string, error) {
	type inner struct {
		Tags  []string          `json:"tags,omitempty"`
		Price json.Number       `json:"price"`
		More  map[string]any    `json:"more"`
		None  *int              `json:"none"`
		Texts map[string]string `json:",omitempty"`
	}
	number := 7
	var texts []string
	for _, args := range slices.Concat([]any{
		nil, true, "", "text <&> \u2028", 17, math.Copysign(0, -1), 1e21, 1e-7, []int(nil), []string{}, map[string]int{"b": 1, "a": 2},
		inner{Price: "1.50"}, inner{Tags: []string{"x"}, Price: "15e-1", More: map[string]any{"deep": []any{1, "2", nil}}, None: &number},
		[]inner{{Price: "0"}}, &struct{ Amount *big.Int }{big.NewInt(1 << 60)},
	}, rawArgs()) {
		fp, err := dedup.FingerprintOf(args)
		if err != nil {
			return nil, err
		}
		texts = append(texts, fp.String())
	}
	return texts, nil
}

func rawArgs() (args []any) {
	for _, text := range []string{
		`{"a": 1, "b": [1.0, "\u0078", {"c": null}]}`, `9007199254740993`, `1e400`, `-0`, `"\ud83d\ude00"`, `{"\u00e9": "e\u0301"}`, `[[], {}, ""]`,
	} {
		args = append(args, json.RawMessage(text))
	}
	return args
}

// amount calls with arguments whose fingerprint has changed between the versions.
func (c *caller) amount(ctx context.Context, key string) result {
	cmd := &command{}
	call := cmd.call(key)
	call.Args = struct{ Amount big.Int }{*big.NewInt(17)}
	return outcome(dedup.Do(ctx, c.d, call, c.effect(cmd, key)))
}
