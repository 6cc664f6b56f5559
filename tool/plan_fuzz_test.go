package tool

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/tooldedup/dedup"
)

// fuzzIn has every kind of tag and shape, and no type that reads its own JSON.
type fuzzIn struct {
	Key   string              `json:"key" dedup:"key"`
	N     int8                `json:"n,omitempty"`
	F     float32             `json:"f,omitempty"`
	B     *bool               `json:"b,omitempty"`
	Any   any                 `json:"any,omitempty" dedup:"ignore"`
	Raw   string              `json:"raw,omitempty" dedup:"redact"`
	Tree  *fuzzTree           `json:"tree,omitempty"`
	By    map[string]fuzzTree `json:"by,omitempty"`
	Pair  [2]uint16           `json:"pair,omitzero"`
	Inner fuzzInner           `json:"inner,omitzero"`
	fuzzEmbedded
}

type fuzzTree struct {
	Kids []fuzzTree `json:"kids,omitempty"`
	Note string     `json:"note,omitempty" dedup:"ignore"`
	PIN  []int      `json:"pin,omitempty" dedup:"redact"`
	V    int        `json:"v,omitempty"`
}

type fuzzInner struct {
	X string `json:"x,omitempty" dedup:"ignore"`
	Y string `json:"y,omitempty"`
}

type fuzzEmbedded struct {
	E string `json:"e,omitempty" dedup:"redact"`
}

func FuzzArgs(f *testing.F) {
	for _, seed := range []string{
		`{"key":"k"}`, `{}`, `null`, `[]`, `{"key":"k","n":1,"f":1.5,"b":null,"any":{"a":[1,{}]},"raw":"s"}`,
		`{"key":"k","tree":{"kids":[{"note":"x","pin":[1,2],"v":3},{"kids":[]}],"v":1},"e":"x"}`,
		`{"key":"k","by":{"a":{"note":"b"},"c":{"v":2}},"pair":[1,2],"inner":{"x":"1","y":"2"}}`,
		`{"key":"k","n":1.0,"tree":{"v":1.20e2},"pair":[1e2,-0]}`, `{"k\u0065y":"\ud800","any":1e400}`, ` { "key" : "a\"b\\" , "raw" : "\\\"" } `, `{"key":"k","pair":[1,65536]}`,
	} {
		f.Add([]byte(seed))
	}
	plan, problems := planOf("fuzz", Write, reflect.TypeFor[fuzzIn](), reflect.TypeFor[string]())
	if len(problems) > 0 {
		f.Fatal(problems)
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		var in fuzzIn
		readable, compared, err := plan.decode("fuzz", args, &in)
		if err != nil {
			// decode refuses JSON that does not fit the type, and JSON that only its stricter rules
			// refuse.
			return
		}
		var lenient fuzzIn
		if err := json.Unmarshal(readable, &lenient); err != nil || !reflect.DeepEqual(in, lenient) {
			t.Fatalf("encoding/json reads something else: %+v, %+v, %v", in, lenient, err)
		}
		// The comparison does not see dropped members.
		bare := in
		bare.Any, bare.Raw, bare.E, bare.Inner.X = nil, "", "", ""
		var left fuzzIn
		if err := json.Unmarshal(compared, &left); err != nil {
			t.Fatal(err)
		}
		if left.Any != nil || left.Raw != "" || left.E != "" || left.Inner.X != "" || left.Inner.Y != bare.Inner.Y ||
			left.Key != bare.Key || left.N != bare.N || left.F != bare.F || left.Pair != bare.Pair ||
			!reflect.DeepEqual(left.B, bare.B) || !sameTree(left.Tree, in.Tree) || len(left.By) != len(in.By) {
			t.Fatalf("%+v became %+v", in, left)
		}
		_, again, err := plan.decode("fuzz", compared, new(fuzzIn))
		if err != nil || !bytes.Equal(again, compared) {
			t.Fatalf("compared twice: %q, then %q, %v", compared, again, err)
		}
		if strict(args) {
			if with := addIgnored(args); with != nil {
				_, same, err := plan.decode("fuzz", with, new(fuzzIn))
				first, one := dedup.FingerprintOf(compared)
				second, two := dedup.FingerprintOf(same)
				if err != nil || (one == nil) != (two == nil) || first != second {
					t.Fatalf("%q and %q differ: %v", compared, same, err)
				}
			}
		}
	})
}

// sameTree reports whether two trees are equal without the dropped members.
func sameTree(left, whole *fuzzTree) bool {
	if left == nil || whole == nil {
		return left == whole
	}
	if left.Note != "" || left.PIN != nil || left.V != whole.V || len(left.Kids) != len(whole.Kids) {
		return false
	}
	for i := range left.Kids {
		if !sameTree(&left.Kids[i], &whole.Kids[i]) {
			return false
		}
	}
	return true
}

// strict reports whether an ignored member can be added.
func strict(args []byte) bool {
	return !strings.Contains(string(args), "any") && !bytes.Contains(args, []byte(`\`))
}

// addIgnored adds an ignored member at the end.
func addIgnored(args []byte) []byte {
	end := bytes.LastIndexByte(args, '}')
	return append(append(append([]byte{}, args[:end]...), `,"any":"added"`...), args[end:]...)
}
