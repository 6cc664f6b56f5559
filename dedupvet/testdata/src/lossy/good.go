package lossy

import (
	"context"
	"encoding/json"
	"math/big"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

type payment struct {
	sync.Mutex
	Amount big.Int // encoded through a pointer
	At     time.Time
	Any    any
	Raw    json.RawMessage
	Next   *payment
	cache  map[string]int `json:"-"`
	once   sync.Once
	then   func()
}

type stamped struct{ time.Time }

type own struct {
	time.Time
	Note string
}

func (o own) MarshalJSON() ([]byte, error) { return json.Marshal(o.Note) }

type message struct {
	sizeCache int32
	Name      string
}

func (*message) ProtoMessage() {}

func goodArgs[T any](in *payment, of T, list []T) {
	_ = dedup.Call{Args: in}
	_ = dedup.Call{Args: stamped{}}
	_ = dedup.Call{Args: own{}}
	_ = dedup.Call{Args: &message{}}
	_ = dedup.Call{Args: map[string]any{"amount": big.NewInt(1)}}
	_ = dedup.Call{Args: struct{}{}}
	_ = dedup.Call{Args: of}
	_ = dedup.Call{Args: list}
	_, _ = dedup.FingerprintOf(json.RawMessage("{}"))
	_ = dedup.Call{Args: seat{}} //dedupvet:ignore only the row counts
	var other struct{ Args seat }
	other.Args = seat{}
}

func goodResults[T any](ctx context.Context, d *dedup.Deduper, call dedup.Call, any dedup.Effect[T]) {
	// No caller gets the unexported fields of a result, the first neither.
	_, _ = dedup.Do(ctx, d, call, func(context.Context, pgx.Tx) (seat, error) { return seat{}, nil })
	_, _ = dedup.Do(ctx, d, call, func(context.Context, pgx.Tx) (big.Int, error) { return big.Int{}, nil })
	_, _ = dedup.Do(ctx, d, call, any)
	_ = tool.Tool[ticket, seat]{Name: "book"}
}
