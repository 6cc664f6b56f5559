package mcpdedup_test

import (
	"context"
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

type (
	// kinds has a field of every kind whose JSON is not obvious.
	kinds struct {
		Bytes    []byte                    `json:"bytes"`
		BytesPtr *[]byte                   `json:"bytesPtr"`
		Number   json.Number               `json:"number"`
		NumPtr   *json.Number              `json:"numPtr"`
		Raw      json.RawMessage           `json:"raw"`
		Any      any                       `json:"any"`
		Slice    []kind                    `json:"slice"`
		Map      map[string][]byte         `json:"map"`
		ByID     map[int8]*kind            `json:"byID"`
		Array    [2]byte                   `json:"array"`
		Ptr      *kind                     `json:"ptr"`
		PtrPtr   **int                     `json:"ptrPtr"`
		Time     time.Time                 `json:"time"`
		TimePtr  *time.Time                `json:"timePtr"`
		Long     int64                     `json:"long"`
		Big      uint64                    `json:"big"`
		Float    float64                   `json:"float"`
		Whole    big.Int                   `json:"whole"`
		WholePtr *big.Int                  `json:"wholePtr"`
		Addr     netip.Addr                `json:"addr"`
		Texts    []shades                  `json:"texts"`
		Shade    shade                     `json:"shade"`
		ShadePtr *shade                    `json:"shadePtr"`
		Reader   readsOnly                 `json:"reader"`
		Nothing  struct{}                  `json:"nothing"`
		Given    *given                    `json:"given"`
		Of       map[netip.Addr]*[]*[]byte `json:"of"`
		Named    `json:"named"`
		Word
		*Behind
	}
	kind struct {
		B []byte      `json:"b"`
		N json.Number `json:"n"`
	}
	// shades are bytes that write their own text, so that a list of them is one.
	shades uint8
	// shade writes its own text where it can be addressed.
	shade struct{ Name string }
	// readsOnly reads a text and writes what it is.
	readsOnly struct{ N int }
	given     string
	Named     struct{ A int }
	Word      string
	Behind    struct {
		Slice int    // hidden by the owner's
		Deep  []byte `json:"deep"`
	}
)

func (s shades) MarshalText() ([]byte, error)   { return []byte("grey"), nil }
func (s *shade) MarshalText() ([]byte, error)   { return []byte(s.Name), nil }
func (r *readsOnly) UnmarshalText([]byte) error { return nil }

// kindValues are the zero value and extreme ones.
func kindValues() map[string]kinds {
	seven, bytes, number := 7, []byte("\x00\xff"), json.Number("-1.5e300")
	ptr, at, word := &seven, time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.FixedZone("", 14*3600)), given("b")
	return map[string]kinds{
		"zero": {},
		"full": {
			Bytes: bytes, BytesPtr: &bytes, Number: "9007199254740993", NumPtr: &number, Raw: json.RawMessage(`[{"a":1.0}]`), Any: []any{nil, 1, "x"},
			Slice: []kind{{}, {B: bytes, N: number}}, Map: map[string][]byte{"nil": nil, "some": bytes}, ByID: map[int8]*kind{-1: nil, 1: {}},
			Array: [2]byte{0, 255}, Ptr: &kind{}, PtrPtr: &ptr, Time: at, TimePtr: &at, Long: math.MinInt64, Big: math.MaxUint64, Float: math.MaxFloat64,
			Whole: *big.NewInt(1), WholePtr: big.NewInt(2), Addr: netip.MustParseAddr("::1"), Texts: []shades{1}, Shade: shade{"a"}, ShadePtr: &shade{"b"},
			Given: &word, Of: map[netip.Addr]*[]*[]byte{netip.MustParseAddr("::1"): {nil, &bytes}}, Word: "w", Behind: &Behind{},
		},
		"hollow": {
			Bytes: []byte{}, Raw: json.RawMessage(`null`), Slice: []kind{}, Map: map[string][]byte{}, ByID: map[int8]*kind{}, PtrPtr: new(*int),
			WholePtr: new(big.Int), Texts: []shades{}, ShadePtr: new(shade), BytesPtr: new([]byte), NumPtr: new(json.Number), Float: math.SmallestNonzeroFloat64,
		},
	}
}

// kindsServer is a server with a tool for each value, which answers it.
func kindsServer(t *testing.T, d *desk, opts *mcpdedup.Options) *mcp.Server {
	t.Helper()
	opts.TypeSchemas = map[reflect.Type]*jsonschema.Schema{reflect.TypeFor[given](): {Type: "string", Enum: []any{"a", "b"}}}
	server := newServer()
	for name, value := range kindValues() {
		require.NoError(t, addTool(server, d.tools, opts, tool.Tool[struct{}, kinds]{Name: name, Class: tool.Write,
			Run: func(ctx context.Context, tx pgx.Tx, _ struct{}) (kinds, error) { return value, effect(ctx, tx, name) }}))
	}
	return server
}

// TestResultsFitTheirSchemas: what a tool answers fits what its schema says, the
// zero value too, in an envelope too, and the same for a replay.
func TestResultsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	for _, envelope := range []bool{false, true} {
		d := newDesk(t, nil)
		opts := oneUser()
		opts.Envelope = envelope
		cs := connect(t, kindsServer(t, d, opts))
		list, err := cs.ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, list.Tools, 3)
		for _, shown := range list.Tools {
			var schema jsonschema.Schema
			require.NoError(t, json.Unmarshal([]byte(asJSON(t, shown.OutputSchema)), &schema))
			resolved, err := schema.Resolve(nil)
			require.NoError(t, err)
			for range 2 {
				res := call(t, cs, shown.Name, args{mcpdedup.KeyArgument: "k"})
				require.False(t, res.IsError, text(res))
				require.NotNil(t, res.StructuredContent)
				require.NoError(t, resolved.Validate(res.StructuredContent), "%s: %s", shown.Name, text(res))
			}
		}
	}
}

// TestSchemasSayWhatTheyCan: a schema that allowed everything would fit too.
func TestSchemasSayWhatTheyCan(t *testing.T) {
	t.Parallel()
	d := newDesk(t, nil)
	server := newServer()
	type in struct {
		Bytes  []byte           `json:"bytes"`
		Number json.Number      `json:"number"`
		Writer shades           `json:"writer"`
		Reader *readsOnly       `json:"reader"`
		ByID   map[int16]string `json:"byID,omitempty"`
		Word
		Named `json:"named"`
	}
	require.NoError(t, addTool(server, d.tools, oneUser(), tool.Tool[in, kinds]{Name: "t", Class: tool.ReadOnly,
		Run: func(context.Context, pgx.Tx, in) (k kinds, err error) { return k, nil }}))
	list, err := connect(t, server).ListTools(t.Context(), nil)
	require.NoError(t, err)
	requireGolden(t, "kinds.golden.json", asJSON(t, []any{list.Tools[0].InputSchema, list.Tools[0].OutputSchema})+"\n")

	// Whatever fits the schema is read.
	res := call(t, connect(t, server), "t", args{
		"bytes": nil, "number": json.Number("1e400"), "writer": 7, "reader": "x", "byID": nil, "Word": "w", "named": args{"A": json.Number("1.0")},
	})
	require.False(t, res.IsError, text(res))
}
