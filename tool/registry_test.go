package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/tool"
)

// of makes a Write tool with a type of arguments.
func of[In any](change ...func(*tool.Tool[In, string])) tool.Definition {
	made := tool.Tool[In, string]{Name: "t", Class: tool.Write, Run: func(context.Context, pgx.Tx, In) (string, error) { return "ok", nil }}
	for _, f := range change {
		f(&made)
	}
	return made
}

// out makes a tool with a type of results.
func out[Out any]() tool.Definition {
	return tool.Tool[struct{}, Out]{Name: "t", Class: tool.Write, Run: func(context.Context, pgx.Tx, struct{}) (out Out, err error) { return out, nil }}
}

// named makes a tool with a name and a type of results.
func named[Out any](name string) tool.Definition {
	made := out[Out]().(tool.Tool[struct{}, Out])
	made.Name = name
	return made
}

type (
	base    struct{ A, B int }
	self    struct{ *Self }
	Self    struct{ *Self }
	pointee struct{ X int }
	withKey struct {
		ID string `json:"id" dedup:"key"`
	}
	node struct {
		ID   string  `json:"id" dedup:"key"`
		Kids []*node `json:"kids"`
	}
)

func TestRegistrationProblems(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	change := func(f func(*tool.Tool[struct{}, string])) tool.Definition { return of(f) }
	var nilTool *tool.Tool[struct{}, string]
	for name, tt := range map[string]struct {
		tool          tool.Definition
		field, reason string
	}{
		"Nil":           {nil, "argument 0", "is nil"},
		"NilPointer":    {nilTool, "argument 0", "is nil"},
		"NoName":        {change(func(d *tool.Tool[struct{}, string]) { d.Name = "" }), "Name", "must be"},
		"LongName":      {change(func(d *tool.Tool[struct{}, string]) { d.Name = strings.Repeat("x", 129) }), "Name", "must be"},
		"OddName":       {change(func(d *tool.Tool[struct{}, string]) { d.Name = "a b" }), "Name", "must be"},
		"Unclassified":  {change(func(d *tool.Tool[struct{}, string]) { d.Class = "" }), "Class", "is missing"},
		"UnknownClass":  {change(func(d *tool.Tool[struct{}, string]) { d.Class = "other" }), "Class", "is not a class of this package"},
		"External":      {change(func(d *tool.Tool[struct{}, string]) { d.Class = tool.External }), "Class", "use an ExternalTool"},
		"Retention":     {change(func(d *tool.Tool[struct{}, string]) { d.Retention.Result, d.Retention.Tombstone = -1, -1 }), "Retention", "at least 1ms"},
		"NoRun":         {change(func(d *tool.Tool[struct{}, string]) { d.Run = nil }), "Run", "is nil"},
		"NoStruct":      {of[string](), "In", "must be a struct"},
		"Pointer":       {of[*base](), "In", "must be a struct"},
		"DecodesItself": {of[time.Time](), "In", "reads its own JSON"},
		"Chan":          {of[struct{ C chan int }](), "In.C", "no JSON"},
		"FuncInList":    {of[struct{ L []struct{ F func() } }](), "In.L[].F", "no JSON"},
		"Complex":       {of[struct{ C complex128 }](), "In.C", "no JSON"},
		"Interface":     {of[struct{ I error }](), "In.I", "no JSON"},
		"Endless":       {of[struct{ P endless }](), "In.P", "no JSON"},
		"EndlessTwo":    {of[struct{ P there }](), "In.P", "no JSON"},
		"MapKey":        {of[struct{ M map[int]int }](), "In.M", "must be strings"},
		"TextKey":       {of[struct{ M map[time.Time]int }](), "In.M", "must be strings"},
		"Quoted": {of[struct {
			N int `json:"n,string"`
		}](), "In.N", "option string"},
		"TwoFields": {of[struct {
			base
			A int
		}](), "In.A", "name of two fields"},
		"JSONName": {of[struct {
			X int "json:\"a\\\\b\""
		}](), "In.X", "does not accept"},
		"UnknownTag": {of[struct {
			X int `dedup:"secret"`
		}](), "In.X", `"secret"`},
		"TagOnHidden": {of[struct {
			x int `dedup:"redact"`
		}](), "In.x", "not exported"},
		"TagOnDash": {of[struct {
			X int `json:"-" dedup:"redact"`
		}](), "In.X", "is not an argument"},
		"TagOnEmbedded": {of[struct {
			base `dedup:"ignore"`
		}](), "In.base", "is embedded"},
		"EmbedsItself":  {of[self](), "In.Self", "embeds itself"},
		"HiddenPointer": {of[struct{ *pointee }](), "In.pointee", "cannot fill"},
		"EmbeddedReader": {of[struct {
			time.Time
			big.Int
		}](), "In.Time", "give it a name"},
		"KeyOfReads":       {of(func(d *tool.Tool[withKey, string]) { d.Class = tool.ReadOnly }), "In.id", "ReadOnly"},
		"KeyInList":        {of[struct{ L []withKey }](), "In.L[].id", "stands in a list"},
		"KeyBehindPointer": {of[struct{ P *withKey }](), "In.P.id", "behind a pointer"},
		"KeyInRecursion":   {of[struct{ Root node }](), "In.Root.kids[].id", "stands in a list"},
		"KeyIsFloat": {of[struct {
			F float64 `dedup:"key"`
		}](), "In.F", "is float64"},
		"KeyIsNumber": {of[struct {
			F json.Number `dedup:"key"`
		}](), "In.F", "is json.Number"},
		"KeyIsOptional": {of[struct {
			N int `json:"n,omitempty" dedup:"key"`
		}](), "In.n", "may be left out"},
		"KeyInOptional": {of[struct {
			S struct {
				N int `json:"n" dedup:"key"`
			} `json:"s,omitzero"`
		}](), "In.s.n", "may be left out"},
		"KeyIsSecret": {of[struct {
			S withKey `json:"s" dedup:"redact"`
		}](), "In.s.id", "not compared"},
		"OutChan":          {out[chan int](), "Out", "no JSON"},
		"OutFunc":          {out[[]struct{ F func() }](), "Out[].F", "no JSON"},
		"OutHollow":        {out[struct{ n int }](), "Out", "export its fields"},
		"OutHollowPointer": {out[*struct{ n int }](), "Out", "export its fields"},
		"OutEndless":       {out[endless](), "Out", "no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := b.tools.Add(tt.tool)
			var registration *tool.RegistrationError
			require.ErrorAs(t, err, &registration)
			found := false
			for _, p := range registration.Problems {
				found = found || p.Field == tt.field && strings.Contains(p.Reason, tt.reason)
			}
			require.True(t, found, err.Error())
		})
	}
}

func TestRegistrationListsEverything(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	b.add(t, "there", tool.Write)
	err := b.tools.Add(
		tool.Tool[ticketIn, ticket]{Name: "there", Class: tool.Write, Run: b.createTicket},
		tool.Tool[ticketIn, ticket]{Name: "twice", Class: tool.Write, Run: b.createTicket},
		tool.Tool[ticketIn, ticket]{Name: "twice"},
	)
	require.EqualError(t, err, `tool: not registered:
	there: Name is another tool's already
	twice: Class is missing: say whether the tool is ReadOnly, Idempotent, Write or Destructive
	twice: Run is nil
	twice: Name is another tool's already`)
	require.Len(t, b.tools.Tools(), 1, "none of them")
}

func TestSoundTypesAreRegistered(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type list []list
	type tree struct {
		Kids map[string]*tree
		List list
	}
	type in struct {
		base
		*Outer
		When  time.Time
		Raw   json.RawMessage
		Any   any
		Bytes []byte
		Tree  tree
		By    map[string]map[string]time.Time
		skip  int
		Ptr   **int
	}
	require.NoError(t, b.tools.Add(of[in]()))
	for i, sound := range []func(name string) tool.Definition{
		named[struct{}], named[big.Int], named[time.Time], named[netip.Addr], named[[]struct{ n int }],
	} {
		require.NoError(t, b.tools.Add(sound(fmt.Sprint("out", i))))
	}
	info, found := b.tools.Lookup("t")
	require.True(t, found)
	require.Equal(t, "t", info.Name)
	require.Same(t, b.d, b.tools.Deduper())
	require.PanicsWithValue(t, "tool: NewRegistry: the Deduper is nil", func() { tool.NewRegistry(nil, nil) })
	_ = in{}.skip
}

// endless and there are pointers to each other.
type (
	endless *endless
	there   *back
	back    *there
)

// Outer is embedded as a pointer.
type Outer struct{ Inner string }
