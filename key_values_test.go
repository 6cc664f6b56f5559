package dedup

import (
	"database/sql"
	"encoding"
	"encoding/json"
	"log/slog"
	"math"
	"math/big"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type (
	goldenBase struct {
		ID int `json:"id"`
	}
	goldenOther   struct{ Name string }
	goldenJSON    struct{ n int }
	goldenText    struct{ n int }
	goldenByRef   struct{ N int }
	goldenRefText struct{ N int }
	goldenTextKey string
	goldenByte    byte

	goldenTags struct {
		Plain   int             `json:"a b-_.$%"`
		Dash    int             `json:"-,"` //nolint:staticcheck // the name "-" is what is tried
		HTML    int             `json:"<x>&"`
		Skipped int             `json:"-"`
		String  int             `json:"string,string"`
		Quoted  string          `json:",string"`
		Pointer *float64        `json:",string"`
		Omitted []int           `json:",omitempty"`
		Kept    [0]struct{}     `json:",omitempty"`
		Zero    time.Time       `json:",omitzero"`
		Unknown int             `json:"unknown,inline"`
		Raw     json.RawMessage `json:"raw"`
	}
	goldenEmbeds struct {
		goldenBase
		*goldenOther
		Named  goldenBase `json:"named"`
		ID     string
		hidden int
	}
)

func (goldenJSON) MarshalJSON() ([]byte, error) {
	return []byte(" { \"b\" : 1.0 , \"a\" : \"<\u2028\\u0041\" } "), nil
}
func (goldenText) MarshalText() ([]byte, error)      { return []byte("<text>"), nil }
func (*goldenByRef) MarshalJSON() ([]byte, error)    { return []byte(`"by reference"`), nil }
func (*goldenRefText) MarshalText() ([]byte, error)  { return []byte("by reference"), nil }
func (k goldenTextKey) MarshalText() ([]byte, error) { return []byte("text " + k), nil }

// goldenValues are arguments that go through encoding/json, by the name of their fingerprint and
// key in testdata/key.json.
func goldenValues() map[string]any {
	half := 0.5
	_, network, _ := net.ParseCIDR("10.0.0.0/8")
	at := time.Date(2026, 2, 3, 4, 5, 6, 70_000, time.UTC)
	return map[string]any{
		"Nil":              nil,
		"NilPointer":       (*goldenBase)(nil),
		"NilSlice":         []int(nil),
		"EmptySlice":       []int{},
		"NilMap":           map[string]int(nil),
		"EmptyMap":         map[string]int{},
		"EmptyStruct":      struct{}{},
		"Bool":             true,
		"Text":             "<a&b>\u2028\u2029\x00\x1f\x7f\t\b\f\\\" é\U0001f600\ufffd\ufeff",
		"Integers":         []any{int8(-128), uint8(255), int64(math.MinInt64), uint64(math.MaxUint64), uintptr(1), time.March},
		"Floats":           []float64{1e21, 1e20, 123456789, 1e-6, 1e-7, 0.1, 100, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1)},
		"SmallFloats":      []float32{1e21, 0.1, 16777216, 1e-7, 3.4e38},
		"Number":           []json.Number{"1.00", "1e2", ""},
		"Bytes":            map[string]any{"nil": []byte(nil), "none": []byte{}, "some": []byte("\xff<"), "named": []goldenByte{1, 2}},
		"Array":            [3]byte{1, 2, 3},
		"Raw":              map[string]any{"x": json.RawMessage(" [1.0, \"\\u2028\\/\" ] "), "nil": json.RawMessage(nil)},
		"KeysOfText":       map[goldenText]int{{1}: 1},
		"KeysOfNamedText":  map[goldenTextKey]int{"b": 1, "a": 2},
		"KeysOfIntegers":   map[int8]string{-1: "a", 2: "b", 10: "c"},
		"KeysOfUnsigned":   map[uint64]int{math.MaxUint64: 1},
		"KeysOfNumber":     map[json.Number]int{"1.0": 1},
		"MarshalJSON":      []any{goldenJSON{1}, &goldenJSON{2}},
		"MarshalText":      []any{goldenText{1}, &goldenText{2}},
		"ByReference":      []any{goldenByRef{1}, &goldenByRef{1}, []goldenByRef{{1}}, [1]goldenByRef{{1}}, map[string]goldenByRef{"a": {1}}},
		"TextByReference":  []any{goldenRefText{1}, &goldenRefText{1}, []goldenRefText{{1}}, struct{ T goldenRefText }{}},
		"Interfaces":       []encoding.TextMarshaler{goldenText{1}, netip.MustParseAddr("::1"), nil},
		"Tags":             goldenTags{Pointer: &half, Unknown: 1, Raw: json.RawMessage("1.0")},
		"TagsNil":          &goldenTags{Omitted: []int{1}, Zero: at},
		"Embedded":         goldenEmbeds{goldenBase: goldenBase{1}, goldenOther: &goldenOther{"x"}, ID: "shadow", hidden: 1},
		"EmbeddedNil":      goldenEmbeds{},
		"EmbeddedMethod":   struct{ time.Time }{at},
		"Time":             at,
		"TimeInZone":       at.In(time.FixedZone("", 5400)),
		"Duration":         time.Second,
		"BigInt":           []*big.Int{big.NewInt(math.MaxInt64), nil},
		"BigFloat":         big.NewFloat(1.5),
		"BigRat":           big.NewRat(1, 3),
		"Addresses":        []any{netip.MustParsePrefix("10.0.0.0/8"), netip.AddrPort{}, net.IPv4(1, 2, 3, 4), network, net.HardwareAddr{1, 2}},
		"SQLNull":          []any{sql.NullString{String: "a", Valid: true}, sql.Null[int]{}},
		"Level":            slog.LevelWarn,
		"Nested":           map[string]any{"b": []any{1.5, nil, map[string]any{"d": "x", "c": true}}, "a": &goldenBase{1}},
		"MessageOfAPI":     struct{ Amount int64 }{9007199254740993},
		"PointerToPointer": func() any { p := &goldenBase{7}; return &p }(),
	}
}

// TestGoldenOfGoValues compares fingerprints and keys with those of Go 1.26: a retry after another
// release of Go has built the program must be the same call.
func TestGoldenOfGoValues(t *testing.T) {
	t.Parallel()

	values := goldenValues()
	for _, v := range goldenKeys(t).Values {
		value, ok := values[v.Name]
		require.True(t, ok, v.Name)
		delete(values, v.Name)
		text, _ := json.Marshal(value)
		fp, err := FingerprintOf(value)
		require.NoError(t, err, v.Name)
		require.Equal(t, v.Fingerprint, fp.String(), "%s: %s", v.Name, text)
		key, err := KeyFromToolCallArgs("session-1", 1, "book", value, 0)
		require.NoError(t, err)
		require.Equal(t, v.Key, key, "%s: %s", v.Name, text)
		key, err = KeyFromArgsMergingRepeats("session-1", value)
		require.NoError(t, err)
		require.Equal(t, v.Merging, key, "%s: %s", v.Name, text)
	}
	require.Empty(t, values, "without a fingerprint in testdata/key.json")
}
