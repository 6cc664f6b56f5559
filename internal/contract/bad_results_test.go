package contract_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// oneWay encodes and does not decode.
type oneWay struct{}

func (oneWay) MarshalJSON() ([]byte, error)  { return []byte(`"x"`), nil }
func (*oneWay) UnmarshalJSON(b []byte) error { return errOwn }

func badResults() (rows []badRow) {
	rows = []badRow{
		returns("Channel", make(chan int), badResult("encode")),
		returns("ChannelInAny", any(make(chan int)), badResult("encode")),
		returns("NaN", math.NaN(), badResult("encode")),
		returns("Inf", []float64{math.Inf(1)}, badResult("encode")),
		returns("Func", func() {}, badResult("encode")),
		returns("Complex", complex(1, 1), badResult("encode")),
		returns("Oversized", strings.Repeat("x", 1<<20), badResult("size")),
		returns("OversizedRaw", json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`), badResult("size")),
		returns("RawInvalid", json.RawMessage(`{"a":`), badResult("encode")),
		returns("RawEmpty", json.RawMessage{}, badResult("encode")),
		returns("RawNotUTF8", json.RawMessage("\"\xff\""), badResult("encode")),
		returns("RawNUL", json.RawMessage("\"a\x00b\""), badResult("encode")),
		returns("RawInStruct", struct{ A json.RawMessage }{json.RawMessage(`{`)}, badResult("encode")),
		returns("OneWay", oneWay{}, badResult("decode", errOwn)),
		returns("Interface", fmt.Stringer(time.Second), badResult("decode")),
		returns("MapOfInterfaces", map[string]error{"a": errOwn}, badResult("encode")),
		returns("OutOfRangeInJSON", struct{ A *wide }{new(wide)}, badResult("decode")),
		returns("NothingExported", struct{ n int }{42}, badResult("encode")),
		returns("MarshalError", failing{errOwn}, badResult("encode", errOwn)),
		returns("MarshalPanic", panicking{"result"}, panics("result")),
		returns("MarshalPanicError", panicking{errOwn}, panics(errOwn)),
	}
	nothing := returns("RawNil", json.RawMessage(nil), fine) // is null
	nothing.records, nothing.effects, nothing.replays = 1, 1, true
	return append(rows, nothing)
}

// wide writes a number that no int64 holds.
type wide int64

func (*wide) MarshalJSON() ([]byte, error) { return []byte("1e400"), nil }

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
