package contract_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// A door is a function that takes the identity of a call.
type door func(w *badWorld, ctx context.Context, d *dedup.Deduper, c dedup.Call) error

var doors = map[string]door{
	"Do": func(_ *badWorld, ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
		_, err := dedup.Do(ctx, d, c, effect("k"))
		return err
	},
	"DoTx": func(w *badWorld, ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
		return w.inTx(func(tx pgx.Tx) error {
			_, err := dedup.DoTx(ctx, d, tx, c, effect("k"))
			_, alive := tx.Exec(w.ctx, `SELECT 1`)
			require.NoError(w.t, alive)
			return err
		})
	},
	"DoStatement": func(_ *badWorld, ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
		_, err := dedup.DoStatement[ticket](ctx, d, c, leave("k"))
		return err
	},
	"DoBatch": func(_ *badWorld, ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
		return slices.Collect(dedup.DoBatch[ticket](ctx, d, slices.Values([]dedup.StatementCall{{Call: c, Statement: leave("k")}}), nil))[0].Err
	},
	"Lookup": func(_ *badWorld, ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
		_, err := d.Lookup(ctx, c.Scope, c.Tool, c.Key)
		return err
	},
	"Reset": func(_ *badWorld, ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
		_, err := d.Reset(ctx, c.Scope, c.Tool, c.Key, dedup.ChangeOptions{Reason: "test"})
		return err
	},
}

// badCalls are refused by every function. Invalid names, arguments and options are covered by
// TestValidateName, internal/canon and TestOptionsRefused.
func badCalls() (rows []badRow) {
	for name, through := range doors {
		bad := func(what, field string, call func(w *badWorld) error) {
			rows = append(rows, badRow{name: name + what, want: invalidCall(field, dedup.ErrInvalid), run: call})
		}
		for field, set := range map[string]func(c *dedup.Call, v string){
			"Scope": func(c *dedup.Call, v string) { c.Scope = v },
			"Tool":  func(c *dedup.Call, v string) { c.Tool = v },
			"Key":   func(c *dedup.Call, v string) { c.Key = v },
		} {
			for what, value := range map[string]string{"Empty": "", "Control": "a\nb"} {
				bad(field+what, field, func(w *badWorld) error {
					c := call("k")
					set(&c, value)
					return through(w, w.ctx, w.d, c)
				})
			}
		}
		var none context.Context
		bad("NilContext", "ctx", func(w *badWorld) error { return through(w, none, w.d, call("k")) })
		bad("NilDeduper", "d", func(w *badWorld) error { return through(w, w.ctx, nil, call("k")) })
		bad("ZeroDeduper", "d", func(w *badWorld) error { return through(w, w.ctx, &dedup.Deduper{}, call("k")) })
	}
	marshals := func(v any) func(w *badWorld) error {
		return func(w *badWorld) error {
			c := call("k")
			c.Args = v
			return w.doWith(c)
		}
	}
	return append(rows,
		badRow{name: "NilEffect", want: invalidCall("effect"), run: func(w *badWorld) error {
			_, err := dedup.Do[ticket](w.ctx, w.d, call("k"), nil)
			return err
		}},
		badRow{name: "NilEffectTx", want: invalidCall("effect"), run: func(w *badWorld) error {
			return w.inTx(func(tx pgx.Tx) error {
				_, err := dedup.DoTx[ticket](w.ctx, w.d, tx, call("k"), nil)
				return err
			})
		}},
		badRow{name: "ResetWithoutReason", want: invalidCall("Reason"), run: func(w *badWorld) error {
			_, err := w.d.Reset(w.ctx, "acme", "create_ticket", "k", dedup.ChangeOptions{})
			return err
		}},
		badRow{name: "ArgsMarshalError", want: invalidCall("Args", errOwn), run: marshals(failing{errOwn})},
		badRow{name: "ArgsMarshalPanic", want: panics("args"), run: marshals(panicking{"args"})},
		badRow{name: "Retention", want: invalidCall("Retention"), run: func(w *badWorld) error {
			c := call("k")
			c.Retention = dedup.Retention{Result: -1, Tombstone: -1}
			return w.doWith(c)
		}},
		badRow{name: "OptionsForeignSchema", want: is(dedup.ErrSchema), run: func(w *badWorld) error {
			return doors["Do"](w, w.ctx, newDeduper(w.t, w.pool, &dedup.Options{Schema: "nowhere"}), call("k"))
		}},
		badRow{name: "OptionsHostileSchema", want: is(dedup.ErrSchema), run: func(w *badWorld) error {
			return doors["Do"](w, w.ctx, newDeduper(w.t, w.pool, &dedup.Options{Schema: `public"; DROP TABLE tool_dedup; --`}), call("k"))
		}},
	)
}

type failing struct{ err error }

func (f failing) MarshalJSON() ([]byte, error) { return nil, f.err }

type panicking struct{ value any }

func (p panicking) MarshalJSON() ([]byte, error) { panic(p.value) }

var errOwn = errors.New("the tool's own error")

// oneWay encodes and does not decode.
type oneWay struct{}

func (oneWay) MarshalJSON() ([]byte, error)  { return []byte(`"x"`), nil }
func (*oneWay) UnmarshalJSON(b []byte) error { return errOwn }

// badResults: internal/canon knows what loses something as JSON.
func badResults() []badRow {
	nothing := returns("RawNil", json.RawMessage(nil), fine) // is null
	nothing.records, nothing.effects, nothing.replays = 1, 1, true
	return []badRow{
		returns("Channel", make(chan int), badResult("cannot be encoded")),
		returns("NotUTF8", "a\xff", badResult("cannot be encoded")), // encoding/json would change it
		returns("OversizedRaw", json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`), badResult("Options.MaxResultBytes")),
		returns("RawInvalid", json.RawMessage(`{"a":`), badResult("is not valid")),
		returns("OneWay", oneWay{}, badResult("cannot be decoded", errOwn)),
		returns("MarshalError", failing{errOwn}, badResult("cannot be encoded", errOwn)),
		returns("MarshalPanic", panicking{"result"}, panics("result")),
		nothing,
	}
}

func returns[R any](name string, value R, want func(*testing.T, error)) badRow {
	return badRow{name: "Result" + name, want: want, run: func(w *badWorld) error {
		works := func(ctx context.Context, tx pgx.Tx) (R, error) {
			_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
			return value, err
		}
		if name != "RawNil" {
			tx, err := w.pool.Begin(w.ctx)
			require.NoError(w.t, err)
			defer tx.Rollback(context.WithoutCancel(w.ctx))
			want(w.t, caught(func() error {
				_, err := dedup.DoTx(w.ctx, w.d, tx, call("k"), works)
				return err
			}))
			w.requireUsable(tx)
		}
		result, err := dedup.Do(w.ctx, w.d, call("k"), works)
		require.False(w.t, result.Replayed)
		return err
	}}
}
