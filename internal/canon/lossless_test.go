package canon

import (
	"encoding"
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

type jsonByPointer struct{ n int }

func (p *jsonByPointer) MarshalJSON() ([]byte, error) { return json.Marshal(p.n) }

type textByPointer struct{ n int }

func (p *textByPointer) MarshalText() ([]byte, error) { return json.Marshal(p.n) }

type byValue struct{ n int }

func (v byValue) MarshalJSON() ([]byte, error) { return json.Marshal(v.n) }

type decimal struct {
	coefficient *big.Int
	exponent    int32
}

func (d decimal) MarshalText() ([]byte, error) {
	return []byte(d.coefficient.String() + "e" + big.NewInt(int64(d.exponent)).String()), nil
}

// spelledByPointer encodes alike either way, but not in the same words.
type spelledByPointer struct{ Units int }

func (s *spelledByPointer) MarshalJSON() ([]byte, error) { return json.Marshal([]int{s.Units}) }

type ownBesideEmbedded struct {
	time.Time
	Note string
}

func (o ownBesideEmbedded) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{o.Time, o.Note})
}

type ownByPointer struct {
	time.Time
	Note string
}

func (o *ownByPointer) MarshalJSON() ([]byte, error) { return json.Marshal([]any{o.Time, o.Note}) }

type ownGeneric[T any] struct {
	time.Time
	Value T
}

func (o ownGeneric[T]) MarshalJSON() ([]byte, error) { return json.Marshal([]any{o.Time, o.Value}) }

type ownGenericByPointer[T any] struct {
	time.Time
	Value T
}

func (o *ownGenericByPointer[T]) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{o.Time, o.Value})
}

type noted struct {
	time.Time
	Note string
}

type notedAlone struct{ noted }

type stamped struct{ time.Time }

type withLock struct {
	sync.Mutex
	once sync.Once
	cond *sync.Cond
	wake chan struct{}
	then func()
	_    int
	N    int
}

// countedLock is a sync.Locker that holds a value.
type countedLock struct{ n int }

func (l *countedLock) Lock()   { l.n++ }
func (l *countedLock) Unlock() { l.n-- }

type withNote struct {
	N    int
	note string
}

type withCache struct {
	N     int
	cache map[string]int `json:"-"`
}

type generated struct {
	state         byValue
	sizeCache     int32
	unknownFields []byte
	Name          string
}

func (*generated) ProtoMessage() {}

type opaque struct {
	state  jsonByPointer //nolint:unused // what encoding/json leaves out is the subject
	hidden string        //nolint:unused // likewise
}

func (*opaque) ProtoMessage() {}

type recursive struct {
	Name string
	Next *recursive
	Any  any
	List []recursive
	Map  map[string]recursive
}

type base struct{ ID int }

type shadows struct {
	base
	ID string
}

// sameNames is made here because vet would object.
var sameNames = reflect.New(reflect.StructOf([]reflect.StructField{
	{Name: "A", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
	{Name: "B", Type: reflect.TypeFor[int](), Tag: `json:"x"`},
})).Interface()

type nameTaken struct {
	A int `json:"B"`
	B int
}

type twoBases struct {
	base
	other
}

type other struct{ ID int }

type box[T any] struct{ Value T }

type withError struct{ Err error }

type codedError struct{ Code int }

func (codedError) Error() string { return "coded" }

type unexportedInt int //nolint:unused // likewise

type embedsInt struct {
	unexportedInt //nolint:unused // likewise
	N             int
}

type embedsHollow struct {
	byPointerless //nolint:unused // likewise
	N             int
}

type byPointerless struct {
	n int //nolint:unused // likewise
}

func big500() big.Int { return *big.NewInt(500_000) }

// lossy are arguments that lose something, and where. Of those that have no
// result results lose it too.
var lossy = map[string]struct {
	args        any
	lost        string
	resultsKeep bool
}{
	"NothingExported":      {struct{ n int }{42}, "the value, a struct { n int }, is encoded as {} whatever it holds", false},
	"Error":                {errors.New("x"), "the value, a errors.errorString, is encoded as {}", false},
	"ErrorField":           {withError{errors.New("x")}, "Err, a errors.errorString, is encoded as {}", false},
	"ErrorInSlice":         {[]error{nil, codedError{1}, errors.New("x")}, "[2], a errors.errorString, is", false},
	"Atomic":               {&struct{ Hits atomic.Int64 }{}, "Hits, a atomic.Int64, is encoded as {}", false},
	"AtomicPointer":        {&struct{ At atomic.Pointer[int] }{}, "At, a atomic.Pointer[int], is", false},
	"EmbeddedLocker":       {struct{ sync.Locker }{&countedLock{n: 1}}, "Locker, a canon.countedLock, is encoded as {}", false},
	"SyncMap":              {&struct{ M sync.Map }{}, "M, a sync.Map, is", false},
	"BigIntInMap":          {map[string]big.Int{"a": big500()}, "[...], a big.Int, is encoded as {} whatever it holds; its MarshalJSON has a pointer receiver: hold a *big.Int", false},
	"BigIntInAny":          {map[string]any{"a": []any{1, big500()}}, "[...][1], a big.Int, is encoded as {}", false},
	"BigIntInAnyField":     {box[any]{big500()}, "Value, a big.Int, is", false},
	"BigFloatInArrayInMap": {map[string][1]big.Float{"a": {}}, "[...][0], a big.Float, is encoded as {} whatever it holds; its MarshalText has a pointer", false},
	"RegexpInAny":          {box[any]{*regexp.MustCompile("a")}, "Value, a regexp.Regexp, is", false},
	"Deep":                 {map[string]any{"a": &recursive{List: []recursive{{Map: map[string]recursive{"k": {Any: jsonByPointer{1}}}}}}}, "[...].List[0].Map[...].Any, a canon.jsonByPointer, is", false},
	"BehindRecursion":      {&recursive{Next: &recursive{Next: &recursive{Any: errors.New("x")}}}, "Next.Next.Any, a errors.errorString, is", false},
	"UserOfURL":            {url.URL{Host: "a", User: url.User("u")}, "User, a url.Userinfo, is", false},
	"Generic":              {box[byPointerless]{}, "Value, a canon.byPointerless, is encoded as {}", false},
	"Promoted":             {noted{Note: "x"}, "the value, a canon.noted, is encoded by the MarshalJSON of its embedded time.Time, which leaves out Note; declare the method on canon.noted, or give", false},
	"PromotedPointer":      {&noted{Note: "x"}, "which leaves out Note", false},
	"PromotedDeeper":       {notedAlone{noted{Note: "x"}}, "noted, a canon.noted, is encoded by the MarshalJSON of its embedded time.Time", false},
	"PromotedFromPointer": {struct {
		*netip.Addr
		Port int
	}{&netip.Addr{}, 1}, "which leaves out Port", false},
	"PromotedByPointer": {&struct {
		jsonByPointer
		N int
	}{}, "of its embedded canon.jsonByPointer, which leaves out N", false},
	"PromotedInterface": {struct {
		json.Marshaler
		N int
	}{byValue{1}, 2}, "which leaves out N", false},
	"PromotedGeneric": {struct {
		ownGeneric[int]
		N int
	}{}, "which leaves out N", false},
	"PromotedHidden": {struct {
		time.Time
		n int
	}{}, "which leaves out n", true},
	"UnexportedBeside":      {withNote{1, "x"}, "the value, a canon.withNote, is encoded without note, which is not exported; export it, or tag it json:\"-\" where it does not count", true},
	"UnexportedBesideInMap": {map[string]*withNote{"a": {}}, "[...], a canon.withNote, is encoded without note", true},
	"EmbeddedUnexportedInt": {embedsInt{}, "is encoded without unexportedInt", true},
	"EmbeddedHollow":        {embedsHollow{}, "is encoded without anything of its embedded canon.byPointerless", false},
	"OpaqueMessage":         {&opaque{}, "a canon.opaque, is encoded as {}", false},
	"SameNames":             {sameNames, "is encoded without A or B: both have the name \"x\"", false},
	"NameTaken":             {nameTaken{1, 2}, "is encoded without A or B: both have the name \"B\"", false},
	"NameFromTwoEmbedded":   {twoBases{}, "is encoded without base.ID or other.ID", false},
}

func TestLossyIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range lossy {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // what was found out is remembered
				_, err := FingerprintOf(tc.args)
				requireInvalid(t, err, "lose a part of what they hold as JSON: ")
				requireInvalid(t, err, tc.lost)

				_, err = encodeResult(tc.args)
				if tc.resultsKeep {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, tc.lost)
			}
		})
	}
}

// What is lossless is encoded as encoding/json does it, so that fingerprints stay
// what they were.
func TestLosslessIsTaken(t *testing.T) {
	t.Parallel()
	one := 1
	at := time.Unix(0, 0).UTC()
	for name, args := range map[string]any{
		"EmptyStruct":         struct{}{},
		"RawMessage":          box[json.RawMessage]{json.RawMessage("1")},
		"Time":                box[time.Time]{at},
		"TimeInMap":           map[string]any{"at": at, "by": map[string]time.Time{"a": at}},
		"Stamped":             stamped{at},
		"MarshalerByValue":    []any{byValue{1}, map[string]byValue{"a": {2}}},
		"TextMarshaler":       box[any]{decimal{big.NewInt(5), -1}},
		"Decimals":            map[string]decimal{"a": {big.NewInt(5), -1}},
		"MapKeys":             map[netip.Addr]int{netip.MustParseAddr("::1"): 1},
		"PointerToBigInt":     map[string]any{"a": big.NewInt(1), "b": []*big.Int{nil}, "c": []big.Int{big500()}},
		"SpelledByPointer":    []any{spelledByPointer{1}, box[spelledByPointer]{}, &spelledByPointer{1}},
		"SpelledAtTheTop":     spelledByPointer{1},
		"OwnBesideEmbedded":   ownBesideEmbedded{at, "x"},
		"OwnByPointer":        &ownByPointer{at, "x"},
		"OwnGeneric":          box[any]{ownGeneric[int]{at, 1}},
		"OwnGenericByPointer": &ownGenericByPointer[string]{at, "x"},
		"Locks":               &withLock{N: 1, once: sync.Once{}, wake: make(chan struct{}), then: func() {}, cond: sync.NewCond(&sync.Mutex{})},
		"ExportedLock": &struct {
			Mu sync.RWMutex
			N  int
		}{},
		"TaggedCache":       withCache{1, map[string]int{"a": 1}},
		"Generated":         &generated{Name: "x", sizeCache: 3, state: byValue{1}, unknownFields: nil},
		"Recursive":         &recursive{Next: &recursive{Any: &recursive{Any: "x"}}, List: []recursive{{}}},
		"Shadowed":          shadows{base{1}, "x"},
		"Generic":           box[box[*int]]{box[*int]{&one}},
		"URLWithoutUser":    url.URL{Host: "a"},
		"ErrorWithFields":   withError{codedError{1}},
		"NilError":          withError{},
		"NilAny":            box[any]{},
		"EmptyOfLossy":      map[string]any{"a": []byPointerless{}, "b": map[string]byPointerless{}, "c": (*byPointerless)(nil), "d": [0]byPointerless{}},
		"InterfaceWithText": []encoding.TextMarshaler{netip.MustParseAddr("::1"), &textByPointer{1}},
		"PGType": []any{
			pgtype.Text{String: "a", Valid: true}, pgtype.Int8{Int64: 1, Valid: true}, pgtype.Numeric{Int: big.NewInt(5), Exp: -1, Valid: true},
			pgtype.Timestamptz{Time: at, Valid: true}, pgtype.Date{Time: at, Valid: true}, pgtype.Bool{Valid: true}, pgtype.UUID{Valid: true},
			pgtype.Interval{Days: 1, Valid: true}, pgtype.Float8{Float64: 1, Valid: true}, pgtype.Array[int]{Elements: []int{1}, Valid: true},
			pgtype.Range[pgtype.Int4]{Valid: true}, pgtype.Hstore{}, pgtype.FlatArray[string]{"a"}, pgtype.Point{Valid: true}, pgtype.Timestamp{Time: at, Valid: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				got, err := jsonText(args)
				require.NoError(t, err)
				want, err := json.Marshal(args)
				require.NoError(t, err)
				require.Equal(t, string(want), string(got))
				text, err := encodeResult(args)
				require.NoError(t, err)
				require.Equal(t, string(want), string(text))
			}
		})
	}
}

// Methods with pointer receivers are used where the value is passed by value.
func TestLosslessByPointer(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]any{
		`500000`:                     big500(),
		`{"Amount":500000}`:          struct{ Amount big.Int }{big500()},
		`{"Value":[{"Value":7}]}`:    box[[1]box[jsonByPointer]]{[1]box[jsonByPointer]{{jsonByPointer{7}}}},
		`{"Value":"7"}`:              box[textByPointer]{textByPointer{7}},
		`["1970-01-01T00:00:00Z",2]`: ownGenericByPointer[int]{time.Unix(0, 0).UTC(), 2},
	} {
		text, err := jsonText(value)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
		text, err = encodeResult(value)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}

	five, err := FingerprintOf(struct{ Amount big.Int }{*big.NewInt(5)})
	require.NoError(t, err)
	more, err := FingerprintOf(struct{ Amount big.Int }{big500()})
	require.NoError(t, err)
	require.NotEqual(t, five, more)
}

// A value that refers to itself is refused as encoding/json does it, and at once: also one
// with several ways around, of which no walk sees all.
func TestLosslessEndsOnACircle(t *testing.T) {
	t.Parallel()
	m := map[string]any{}
	m["m"] = m
	for i := range 100 {
		m[string(rune('a'+i))] = m
	}
	ring := &recursive{}
	ring.Next = ring
	list := make([]any, 3)
	list[0], list[1], list[2] = list, list[:2], list
	var self any
	self = &self
	root := &tree{Name: "root"}
	for range 3 {
		root.Children = append(root.Children, &tree{Parent: root, Children: []any{root, root}})
	}
	both := &pair{}
	both.Left, both.Right = both, both
	for name, args := range map[string]any{"Map": m, "Ring": ring, "List": list, "Self": self, "Tree": root, "Pair": both, "PairByValue": *both} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FingerprintOf(args)
			requireInvalid(t, err, "cannot be encoded as JSON (*json.UnsupportedValueError)")
			_, err = encodeResult(args)
			var circle *json.UnsupportedValueError
			require.ErrorAs(t, err, &circle)
			require.ErrorContains(t, err, "encountered a cycle via ")
		})
	}
}

type tree struct {
	Name     string
	Parent   any
	Children []any
}

type pair struct{ Left, Right *pair }

// Pointers that are shared can stand for more text than any memory holds.
func TestLosslessBoundsWhatIsShared(t *testing.T) {
	t.Parallel()
	both, anything := &pair{}, any(map[string]any{"a": nil})
	slices := []any{1, 2, 3}
	for range 200 {
		both = &pair{Left: both, Right: both}
		anything = map[string]any{"a": anything, "b": &tree{Parent: anything, Children: []any{anything}}}
		slices = []any{slices, slices, slices}
	}
	for name, value := range map[string]any{"Pointers": both, "Anything": anything, "Slices": slices} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Encode(value, 1<<16, true)
			require.True(t, IsTooLarge(err), err)
			_, err = Encode(value, 1<<16, false)
			require.True(t, IsTooLarge(err), err)
		})
	}
	_, err := FingerprintOf(slices)
	requireInvalid(t, err, "are more than 16777216 bytes of JSON")

	shared := &pair{}
	text, err := Encode([]*pair{shared, shared, {shared, shared}}, 1<<16, true)
	require.NoError(t, err)
	require.Equal(t, `[{"Left":null,"Right":null},{"Left":null,"Right":null},{"Left":{"Left":null,"Right":null},"Right":{"Left":null,"Right":null}}]`, string(text))
}

// What must have more bytes than the limit is refused, and nothing that has fewer.
func TestLosslessRefusesNothingThatFits(t *testing.T) {
	t.Parallel()
	for _, value := range []any{
		[]any{}, []any{1, 2, 3}, []any{[]any{}, []any{}}, map[string]any{}, map[string]any{"": 1}, pair{}, []pair{}, []*pair{nil, nil, {}},
		[]any{box[any]{}, box[any]{1}, &box[any]{[]any{}}}, [3]any{}, map[int]any{1: 1, 2: [0]any{}}, (*pair)(nil), []struct {
			A any `json:",omitempty"`
		}{{}, {}},
	} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		_, err = Encode(value, len(text), true)
		require.NoError(t, err, string(text))
	}
}

func TestLosslessEndsBeforeTheStack(t *testing.T) {
	t.Parallel()
	list := &recursive{}
	for range 1_000_000 {
		list = &recursive{Next: list}
	}
	_, err := FingerprintOf(list)
	requireInvalid(t, err, "nest deeper than 1000")
	_, err = encodeResult(list)
	require.ErrorContains(t, err, "it nests too deep")
}

func TestEncodeRefusesInvalidStrings(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb"
	for name, value := range map[string]any{
		"String":  bad,
		"MapKey":  map[string]int{"a\xff": 1, "a\xfe": 2},
		"Struct":  box[string]{bad},
		"Slice":   []any{1, []string{bad}},
		"Text":    box[badText]{},
		"Pointer": new(bad),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, escape := range []bool{true, false} {
				_, err := Encode(value, MaxSize, escape)
				require.ErrorContains(t, err, "a string that is not valid UTF-8")
				require.NotContains(t, err.Error(), bad)
			}
		})
	}
	text, err := encodeResult([]string{"\ufffd"})
	require.NoError(t, err)
	require.True(t, json.Valid(text))
}

func TestLosslessNamesNoValue(t *testing.T) {
	t.Parallel()
	_, err := FingerprintOf(map[string]any{"secret": map[string]error{"secret": errors.New("secret")}})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

//nolint:paralleltest // AllocsPerRun counts the whole process
func TestLosslessAllocatesNothing(t *testing.T) {
	for _, args := range []any{
		booking{To: "x", Amount: 1}, &booking{To: "x"}, map[string]any{"a": []any{1.5, "x", nil, map[string]any{"b": true}}}, box[time.Time]{},
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, lost := argLosses.lossless(args, MaxSize); lost != nil {
				panic(lost)
			}
		}))
	}
}

// encodeResult encodes a result as the library does.
func encodeResult(value any) ([]byte, error) { return Encode(value, MaxSize, true) }

// marshals is an interface that only this package can name.
type marshals interface{ MarshalJSON() ([]byte, error) }

// TestLosslessEmbeddedInterface encodes a struct by the method of an embedded interface whose
// type is not exported, which reflection does not hand out.
func TestLosslessEmbeddedInterface(t *testing.T) {
	t.Parallel()
	type holder struct{ marshals }
	text, err := Encode(holder{json.RawMessage(`[1]`)}, 1000, true)
	require.NoError(t, err)
	require.Equal(t, `[1]`, string(text))
	_, err = FingerprintOf(holder{&struct{ json.RawMessage }{json.RawMessage(`{"a":1}`)}})
	require.NoError(t, err)
}
