package tool

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"time"
)

// Types that reflect cannot make, and odd types that no one writes on purpose.
type (
	nastyText        string
	nastyBytes       []byte
	nastyByte        byte
	nastyShade       uint8
	nastyTime        time.Time
	nastyMoment      struct{ time.Time }
	nastyList        []nastyList
	nastyMap         map[string]nastyMap
	nastySet         map[string]bool
	nastyID          struct{ Text string }
	nastyTree[T any] struct {
		Value T              `json:"value"`
		Kids  []nastyTree[T] `json:"kids,omitempty"`
		Left  *nastyTree[T]  `json:"left,omitempty"`
		Other *nastyOther    `json:"other,omitempty"`
	}
	nastyOther struct {
		Back *nastyTree[int8]          `json:"back"`
		By   map[nastyText]*nastyOther `json:"by"`
	}
	NastyBase struct {
		A int8   `json:"a"`
		B []byte `json:"b,omitempty"`
	}
	NastyDeep struct {
		NastyBase
		Deep *int16 `json:"deep"`
	}
	nastyEmbeds struct {
		NastyDeep
		*NastyPointed
		nastyHidden
		Own  bool      `json:"own"`
		Name nastyText `json:"a b!#$%&()*+-./:;<=>?@[]^_{|}~é"`
		Dash int8      `json:"-,"` //nolint:staticcheck // its name is "-"
		Not  chan int  `json:"-"`
		_    chan int
	}
	NastyPointed struct{ P uint8 }
	nastyHidden  struct{ H string }
	nastyQuoted  struct {
		I8   int8        `json:"i8,string"`
		U64  uint64      `json:"u64,string"`
		I64  *int64      `json:"i64,string"`
		F    float64     `json:"f,string"`
		S    string      `json:"s,string"`
		B    bool        `json:"b,omitempty,string"`
		N    json.Number `json:"n,string"`
		Up   uintptr     `json:"up,string"`
		List []int       `json:"list,string"` //nolint:staticcheck // the option is ignored here
		PP   **int       `json:"pp,string"`   //nolint:staticcheck // the option is ignored here
	}
	nastyShadows struct {
		NastyPlain
		A         string
		NastyDeep `json:"deep"`
	}
	nastyClash struct {
		NastyPlain
		NastyTwin
		NastyNamed
		NastyOutvoted
	}
	NastyPlain    struct{ A int8 }
	NastyTwin     struct{ A string }
	NastyOutvoted struct{ B string }
	NastyNamed    struct {
		X int8 `json:"B"`
	}
	nastyPromoted struct {
		time.Time
		Other int
	}
	nastyTwice struct {
		time.Time
		big.Int
	}
	nastyWriter  struct{ N int8 }
	nastyPointer struct{ N int8 }
	nastyHolder  struct {
		Value  nastyPointer
		Ptr    *nastyPointer
		List   []nastyPointer
		Map    map[string]nastyPointer
		Writer *nastyWriter
		Err    error
		fmt.Stringer
		*nastyHidden
		Time    nastyMoment
		Unnamed struct{ time.Time }
	}
	nastyEmptyArray struct {
		None [0]chan int `json:"-"`
		Zero [0]int8
		Void struct{}
	}
)

func (nastyShade) MarshalText() ([]byte, error)    { return []byte("grey"), nil }
func (nastySet) MarshalText() ([]byte, error)      { return []byte("set"), nil }
func (*nastySet) UnmarshalText([]byte) error       { return nil }
func (i nastyID) MarshalText() ([]byte, error)     { return []byte(i.Text), nil }
func (i *nastyID) UnmarshalText(text []byte) error { i.Text = string(text); return nil }
func (nastyWriter) MarshalJSON() ([]byte, error)   { return []byte(`[1,{"a":null}]`), nil }
func (*nastyPointer) MarshalText() ([]byte, error) { return []byte("text"), nil }

// nastyTypes are types for results only.
func nastyTypes() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[nastyHolder](), reflect.TypeFor[nastyShadows](), reflect.TypeFor[nastyClash](), reflect.TypeFor[nastyPromoted](),
		reflect.TypeFor[[]nastyTwice](), reflect.TypeFor[nastyMoment](), reflect.TypeFor[[]nastyWriter](), reflect.TypeFor[map[nastyID]nastyPointer](),
		reflect.TypeFor[*big.Int](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[map[netip.Addr]*big.Float](), reflect.TypeFor[error](),
		reflect.TypeFor[map[time.Time]*time.Time](), reflect.TypeFor[[2]big.Int](), reflect.TypeFor[map[nastyID]nastyID](),
		reflect.TypeFor[nastyQuoted](), reflect.TypeFor[map[uint64][]byte](), reflect.TypeFor[map[int64]*time.Time](),
	}
}

// nastyArguments are types for arguments and results.
func nastyArguments() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[nastyText](), reflect.TypeFor[nastyBytes](), reflect.TypeFor[[]nastyByte](), reflect.TypeFor[[]nastyShade](), reflect.TypeFor[[]nastyTime](),
		reflect.TypeFor[nastyList](), reflect.TypeFor[nastyMap](), reflect.TypeFor[nastySet](), reflect.TypeFor[*nastySet](),
		reflect.TypeFor[nastyTree[string]](), reflect.TypeFor[nastyTree[int8]](), reflect.TypeFor[nastyOther](), reflect.TypeFor[nastyEmbeds](),
		reflect.TypeFor[nastyEmptyArray](), reflect.TypeFor[[3]byte](), reflect.TypeFor[***int8](), reflect.TypeFor[*json.RawMessage](), reflect.TypeFor[[]any](), reflect.TypeFor[map[nastyText]json.Number](),
	}
}

// randomType makes a type for arguments and results.
func randomType(rng *rand.Rand, depth int) reflect.Type {
	scalars := []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](),
		reflect.TypeFor[int64](), reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[uintptr](), reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[[]byte](), reflect.TypeFor[json.Number](),
		reflect.TypeFor[json.RawMessage](), reflect.TypeFor[time.Time](), reflect.TypeFor[any](), reflect.TypeFor[nastyText](), reflect.TypeFor[nastyID](),
	}
	if depth == 0 || rng.IntN(4) == 0 {
		return pick(rng, append(scalars, nastyArguments()...))
	}
	switch rng.IntN(6) {
	case 0:
		return reflect.PointerTo(randomType(rng, depth-1))
	case 1:
		return reflect.SliceOf(randomType(rng, depth-1))
	case 2:
		return reflect.ArrayOf(rng.IntN(4), randomType(rng, depth-1))
	case 3:
		key := pick(rng, []reflect.Type{reflect.TypeFor[string](), reflect.TypeFor[nastyText]()})
		return reflect.MapOf(key, randomType(rng, depth-1))
	default:
		var fields []reflect.StructField
		for i := range rng.IntN(6) {
			f := reflect.StructField{Name: fmt.Sprintf("F%d", i), Type: randomType(rng, depth-1)}
			name := pick(rng, []string{"", "", fmt.Sprintf("f%d", i), fmt.Sprintf("é %d", i)})
			f.Tag = reflect.StructTag(fmt.Sprintf("json:%q dedup:%q", name+pick(rng, []string{"", "", ",omitempty", ",omitzero"}),
				pick(rng, []string{"", "", "", "ignore", "redact"})))
			fields = append(fields, f)
		}
		if rng.IntN(3) == 0 {
			fields = append(fields, reflect.StructField{Name: "NastyBase", Type: reflect.TypeFor[NastyBase](), Anonymous: true})
		}
		return reflect.StructOf(fields)
	}
}

// randomValue makes a value that has JSON: zero, extreme, or neither.
func randomValue(rng *rand.Rand, t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	if rng.IntN(8) == 0 {
		return v
	}
	switch t {
	case reflect.TypeFor[json.Number]():
		v.SetString(pick(rng, []string{"", "0", "-1.5e300", "9007199254740993"}))
		return v
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(pick(rng, []string{`null`, `{"a":[1,"x"]}`, `"\u00e9"`, `1e2`})))
		return v
	case reflect.TypeFor[time.Time]():
		zone := time.FixedZone("", pick(rng, []int{0, 14 * 3600, -(23*3600 + 59*60), 23*3600 + 59*60, 3208}))
		at := pick(rng, []time.Time{{}, time.Date(9999, 12, 31, 23, 59, 59, 999999999, zone), time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 1).In(zone)})
		v.Set(reflect.ValueOf(at))
		return v
	case reflect.TypeFor[netip.Addr]():
		v.Set(reflect.ValueOf(netip.MustParseAddr("fe80::1%eth0")))
		return v
	case reflect.TypeFor[big.Int](), reflect.TypeFor[big.Float](), reflect.TypeFor[error](), reflect.TypeFor[fmt.Stringer]():
		return v
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(pick(rng, append(oddTexts, "<&>\u2028")))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		most := int64(math.MaxInt64) >> (64 - t.Bits())
		v.SetInt(pick(rng, []int64{most, -most - 1, 1, -1, rng.Int64() & most}))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		most := uint64(math.MaxUint64) >> (64 - t.Bits())
		v.SetUint(pick(rng, []uint64{most, 1, rng.Uint64() & most}))
	case reflect.Float32:
		v.SetFloat(pick(rng, []float64{math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32, math.Copysign(0, -1), 1e-7, 1e21}))
	case reflect.Float64:
		v.SetFloat(pick(rng, []float64{math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1), 1e-7, 1e21}))
	case reflect.Interface:
		v.Set(reflect.ValueOf(pick(rng, []any{1.5, "x", true, []any{nil, "a"}, map[string]any{"a": map[string]any{}}})))
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(randomValue(rng, t.Elem(), depth-1))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 0, 3))
		for range min(depth, rng.IntN(4)) {
			v.Set(reflect.Append(v, randomValue(rng, t.Elem(), depth-1)))
		}
	case reflect.Array:
		for i := range t.Len() {
			v.Index(i).Set(randomValue(rng, t.Elem(), depth-1))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		for range min(depth, rng.IntN(4)) {
			v.SetMapIndex(randomValue(rng, t.Key(), depth-1), randomValue(rng, t.Elem(), depth-1))
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				v.Field(i).Set(randomValue(rng, f.Type, depth-1))
			}
		}
	}
	return v
}

func sortedName(rng *rand.Rand, members map[string]json.RawMessage) string {
	return pick(rng, slices.Sorted(maps.Keys(members)))
}
