package lossy

import (
	"context"
	"errors"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

type seat struct {
	Row    int
	cabin  string
	booked []string
}

type prices struct {
	ByCabin map[string]big.Int
}

type noted struct {
	time.Time
	Note string
}

type failed struct{ Err error }

type ticket struct{ id int }

type tree struct {
	Left, Right *tree
	Leaf        []ticket
}

type outer struct {
	inner
	N int
}

type inner struct{ n int }

type box[T any] struct{ Value T }

func args(in seat, p *prices) {
	_ = dedup.Call{Args: in}               // want `arguments lose a part of what they hold as JSON: the value, a lossy.seat, is encoded without cabin, which is not exported; export it, or tag it`
	_ = dedup.Call{"acme", "book", "k", p} // want `ByCabin\[\], a big.Int, is encoded as {} whatever it holds; its MarshalJSON has a pointer receiver: hold a \*big.Int`
	var call dedup.Call
	call.Args = noted{}                                         // want `the value, a lossy.noted, is encoded by the MarshalJSON of its embedded time.Time, which leaves out Note; declare`
	call.Args = failed{}                                        // want `Err, a error, is encoded as {} by most errors; hold its text`
	call.Args = errors.New("x")                                 // want `the value, a error, is`
	call.Args = struct{ Hits atomic.Int64 }{}                   // want `Hits, a atomic.Int64, is encoded as {}`
	call.Args = &tree{}                                         // want `Leaf\[\], a lossy.ticket, is encoded as {}`
	call.Args = outer{}                                         // want `inner, a lossy.inner, is encoded as {}`
	call.Args = box[box[ticket]]{}                              // want `Value.Value, a lossy.ticket, is encoded as {}`
	_, _ = dedup.FingerprintOf(ticket{})                        // want `the value, a lossy.ticket, is encoded as {}`
	_, _ = dedup.KeyFromArgsMergingRepeats("session", ticket{}) // want `the value, a lossy.ticket, is encoded as {}`
}

func results(ctx context.Context, d *dedup.Deduper, tx pgx.Tx, call dedup.Call) {
	effect := func(context.Context, pgx.Tx) (ticket, error) { return ticket{7}, nil }
	_, _ = dedup.Do(ctx, d, call, effect)       // want `the result loses a part of what it holds as JSON: the value, a lossy.ticket, is encoded as {}`
	_, _ = dedup.DoTx(ctx, d, tx, call, effect) // want `the result loses`
	_ = tool.Tool[seat, *ticket]{Name: "book"}  // want `Out loses a part of what it holds as JSON: the value, a lossy.ticket`
}
