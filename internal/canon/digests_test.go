package canon

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestArgDigestsGolden(t *testing.T) {
	t.Parallel()

	vectors := golden[[]struct {
		Scope, Tool, Key, Args string
		Parts                  *string
	}](t, "parts.json")
	require.NotEmpty(t, vectors)
	for _, v := range vectors {
		fp, digests, err := Digest(v.Scope, v.Tool, v.Key, json.RawMessage(v.Args))
		require.NoError(t, err)
		if v.Parts == nil {
			require.Nil(t, digests)
		} else {
			require.Equal(t, *v.Parts, hex.EncodeToString(digests), v.Args)
		}
		want, err := FingerprintOf(json.RawMessage(v.Args))
		require.NoError(t, err)
		require.Equal(t, want, fp)
	}
}

func TestArgDigestsSpelledOut(t *testing.T) {
	t.Parallel()

	part := func(s string) string { return string(binary.BigEndian.AppendUint64(nil, uint64(len(s)))) + s }
	tag := func(name, value string) string {
		sum := sha256.Sum256([]byte("dedup/part/v1" + part("acme") + part("book") + part("k") + part(name) + part(value)))
		return string(sum[:4])
	}
	_, digests, err := Digest("acme", "book", "k", json.RawMessage(`{"to":{"y":1,"x":[2.0]},"n\n":null}`))
	require.NoError(t, err)
	require.Equal(t, "\x01"+"\x02n\n"+tag("n\n", "null")+"\x02to"+tag("to", `{"x":[2],"y":1}`)+"\xff", string(digests))
}

func argDigestsOf(t *testing.T, args any) []byte {
	t.Helper()
	_, digests, err := Digest("acme", "book", "k", args)
	require.NoError(t, err)
	return digests
}

// numbered has n members named from the prefix, all with the same value.
func numbered(prefix string, n, value int) map[string]any {
	object := map[string]any{}
	for i := range n {
		object[fmt.Sprintf("%s%03d", prefix, i)] = value
	}
	return object
}

func TestChangedArgs(t *testing.T) {
	t.Parallel()

	raw := func(text string) any { return json.RawMessage(text) }
	with := func(object map[string]any, name string, value any) map[string]any {
		object[name] = value
		return object
	}
	long := strings.Repeat("n", 65)
	for name, tc := range map[string]struct {
		stored, now any
		names       []string
		complete    bool
	}{
		"Changed":             {raw(`{"a":1,"b":2,"c":3}`), raw(`{"a":1,"b":3,"c":3}`), []string{"b"}, true},
		"ChangedBelow":        {raw(`{"a":{"x":[1,2]}}`), raw(`{"a":{"x":[2,1]}}`), []string{"a"}, true},
		"Added":               {raw(`{"b":2}`), raw(`{"a":1,"b":2,"c":3}`), []string{"a", "c"}, true},
		"Removed":             {raw(`{"a":1,"b":2,"c":3}`), raw(`{"b":2}`), []string{"a", "c"}, true},
		"All":                 {raw(`{"a":1,"c":2}`), raw(`{"b":1,"d":2}`), []string{"a", "b", "c", "d"}, true},
		"FromEmpty":           {raw(`{}`), raw(`{"":0}`), []string{""}, true},
		"NullIsNotAbsent":     {raw(`{"a":null}`), raw(`{}`), []string{"a"}, true},
		"SpellingOnly":        {raw(`{"b":1.0,"a":"\u0041"}`), raw(`{"a":"A","b":1}`), nil, false},
		"NoObjectBefore":      {raw(`[1]`), raw(`{"a":1}`), nil, false},
		"NoObjectNow":         {raw(`{"a":1}`), nil, nil, false},
		"NeverAnObject":       {1, 2, nil, false},
		"LongNameChanged":     {map[string]any{long: 1}, map[string]any{long: 2}, nil, false},
		"BesideLongName":      {map[string]any{long: 1, "z": 1}, map[string]any{long: 2, "z": 2, "zz": 1}, []string{"z", "zz"}, false},
		"LongNameAdded":       {raw(`{"a":1}`), map[string]any{"a": 2, long: 2}, []string{"a"}, false},
		"SixtyFour":           {numbered("m", 64, 1), with(numbered("m", 64, 1), "m063", 2), []string{"m063"}, true},
		"BeyondTheCap":        {numbered("m", 65, 1), with(numbered("m", 65, 1), "m064", 2), nil, false},
		"CapReached":          {numbered("m", 64, 1), numbered("m", 65, 1), nil, false},
		"AddedBeforeTheCap":   {numbered("m", 70, 1), with(numbered("m", 70, 1), "a", 1), []string{"a"}, false},
		"RemovedBeforeTheCap": {with(numbered("m", 70, 1), "a", 1), numbered("m", 70, 1), []string{"a"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			names, complete := ChangedArgs(argDigestsOf(t, tc.stored), argDigestsOf(t, tc.now))
			require.Equal(t, tc.names, names)
			require.Equal(t, tc.complete, complete)
		})
	}
}

// Whatever two objects are, the names are right; and unless something was left out they are all
// there.
func TestChangedArgsProperties(t *testing.T) {
	t.Parallel()

	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 11))
		was, is := map[string]any{}, map[string]any{}
		for range r.IntN(130) {
			name := strings.Repeat("n", r.IntN(3)/2*r.IntN(70)) + fmt.Sprint(r.IntN(100))
			was[name], is[name] = 1, 1
			switch r.IntN(9) {
			case 0:
				delete(was, name)
			case 1:
				delete(is, name)
			case 2:
				is[name] = 2
			}
		}
		different := map[string]bool{}
		for name := range maps.Keys(was) {
			different[name] = is[name] != was[name]
		}
		for name := range maps.Keys(is) {
			different[name] = is[name] != was[name]
		}
		names, complete := ChangedArgs(argDigestsOf(t, was), argDigestsOf(t, is))
		require.True(t, slices.IsSorted(names))
		for _, name := range names {
			require.True(t, different[name], "seed %d: %q did not change", seed, name)
		}
		if complete {
			maps.DeleteFunc(different, func(_ string, changed bool) bool { return !changed })
			require.Equal(t, slices.Sorted(maps.Keys(different)), names, "seed %d", seed)
		}
	}
}

func TestArgDigestsCannotBeComparedAcrossRecords(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}
	for _, id := range [][3]string{{"acme", "book", "k"}, {"acmeb", "ook", "k"}, {"acme", "bookk", ""}, {"acme", "book", "l"}, {"", "acmebook", "k"}} {
		_, digests, err := Digest(id[0], id[1], id[2], json.RawMessage(`{"a":1,"b":1}`))
		require.NoError(t, err)
		for _, tag := range []string{string(digests[3:7]), string(digests[9:13])} {
			require.False(t, seen[tag])
			seen[tag] = true
		}
	}
}

func TestChangedArgsHostile(t *testing.T) {
	t.Parallel()

	good := argDigestsOf(t, json.RawMessage(`{"a":1,"b":2}`))
	now := argDigestsOf(t, json.RawMessage(`{"a":1,"b":3}`))
	tag := "\x00\x00\x00\x00"
	hostile := map[string]string{
		"Nil": "", "VersionOnly": "\x01", "OtherVersion": "\x02" + string(good[1:]), "Trailing": string(good) + "\xff",
		"UnknownEnd": "\x01\xfc", "HugeName": "\x01\x80\x80\x80\x80\x10\xff", "LongName": "\x01\x41" + strings.Repeat("n", 65) + tag + "\xff",
		"Unsorted": "\x01\x01b" + tag + "\x01a" + tag + "\xff", "Twice": "\x01\x01a" + tag + "\x01a" + tag + "\xff",
		"BadName": "\x01\x01\xff" + tag + "\xff", "CappedTooSoon": "\x01\x01a" + tag + "\xfd", "EmptyCapped": "\x01\xfd",
	}
	many := "\x01"
	for i := range 65 {
		many += fmt.Sprintf("\x03%03d", i) + tag
	}
	hostile["TooMany"] = many + "\xff"
	for i := range good {
		hostile[fmt.Sprintf("Cut%d", i)] = string(good[:i])
	}
	for name, stored := range hostile {
		for _, order := range [][2][]byte{{[]byte(stored), now}, {now, []byte(stored)}} {
			names, complete := ChangedArgs(order[0], order[1])
			require.Empty(t, names, name)
			require.False(t, complete, name)
		}
	}
}

func FuzzChangedArgs(f *testing.F) {
	for _, v := range golden[[]struct{ Parts *string }](f, "parts.json") {
		if v.Parts != nil {
			digests, err := hex.DecodeString(*v.Parts)
			require.NoError(f, err)
			f.Add(digests, []byte("\x01\x01a\x00\x00\x00\x00\xff"))
			f.Add(digests[:len(digests)/2], digests)
		}
	}
	f.Add([]byte("\x01\xfd"), []byte("\x01\xff"))
	f.Fuzz(func(t *testing.T, stored, now []byte) {
		names, complete := ChangedArgs(stored, now)
		back, backComplete := ChangedArgs(now, stored)
		require.Equal(t, names, back, "not symmetric")
		require.Equal(t, complete, backComplete)
		require.False(t, complete && len(names) == 0)
		require.LessOrEqual(t, len(names), 2*argDigestsMax)
		require.True(t, slices.IsSorted(names))
		require.Equal(t, slices.Compact(slices.Clone(names)), names)
		for _, name := range names {
			require.LessOrEqual(t, len(name), argNameMax)
		}
		same, complete := ChangedArgs(stored, stored)
		require.Empty(t, same)
		require.False(t, complete)
	})
}
