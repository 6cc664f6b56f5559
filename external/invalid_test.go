package external_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// TestProblems lists the problems for which Add would refuse a tool, without adding it: those of
// the tool alone, of its durations, and of the Tools, whose answers are kept for 31 days.
func TestProblems(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	perform := answering("ch_1")
	find := func(context.Context, external.Attempt, in) ([]out, error) { return nil, nil }
	add(f, external.Tool[in, out]{Name: "taken", Perform: perform})
	for name, c := range map[string]struct {
		tool   external.Tool[in, out] // without a Name, the case's is used
		fields []string               // of all problems; none if Add accepts it
		says   string                 // part of the first problem's text
	}{
		"Good":           {tool: external.Tool[in, out]{Perform: perform}},
		"Taken":          {tool: external.Tool[in, out]{Name: "taken", Perform: perform}, fields: []string{"Tool.Name"}, says: `"taken" is taken`},
		"BadName":        {tool: external.Tool[in, out]{Name: "a\x00", Perform: perform}, fields: []string{"Tool.Name"}},
		"NoPerform":      {fields: []string{"Tool.Perform"}},
		"FindNoRef":      {tool: external.Tool[in, out]{Perform: perform, Find: find}, fields: []string{"Tool.Ref"}},
		"SettlesNoUse":   {tool: external.Tool[in, out]{Perform: perform, Settles: lease}, fields: []string{"Tool.Settles"}},
		"TimeoutTooLong": {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: lease}, fields: []string{"Tool.Timeout", "Tool.KeyKept"}},
		"BadRetention":   {tool: external.Tool[in, out]{Perform: perform, Retention: dedup.Retention{Result: 1}}, fields: []string{"Retention"}, says: "at least 1ms"},
		"NotKept":        {tool: external.Tool[in, out]{Perform: perform, Retention: dedup.Retention{Result: -1}}, fields: []string{"Retention"}, says: "must not be negative"},
		"Negative":       {tool: external.Tool[in, out]{Perform: perform, Timeout: -1}, fields: []string{"Tool.Timeout"}, says: "negative"},
		"AllAtOnce": {
			tool:   external.Tool[in, out]{Name: "taken", Perform: perform, KeyKept: time.Hour, Retention: dedup.Retention{Result: -1}},
			fields: []string{"Tool.Ref", "Retention", "Tool.Name"},
		},

		"Day":            {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: 24 * time.Hour}},
		"Forever":        {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: external.Forever, Retention: dedup.Retention{Result: time.Hour, Tombstone: -1}}},
		"LeasesTooLong":  {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: 2 * lease, Timeout: time.Millisecond}, fields: []string{"Tool.KeyKept"}, says: "make KeyKept longer"},
		"JustLongEnough": {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: 2*lease + 1, Timeout: time.Millisecond}},
		"TimeoutAdded":   {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: 8 * lease, Timeout: 2 * lease, Settles: 5 * lease}, fields: []string{"Tool.KeyKept"}, says: "make KeyKept longer"},
		"SettlesTooLong": {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: time.Hour, Settles: time.Hour}, fields: []string{"Tool.Settles", "Tool.KeyKept"}, says: "must be less than KeyKept"},
		"Remembered":     {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: 31 * 24 * time.Hour}},
		"Outlived":       {tool: external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: 31*24*time.Hour + 1}, fields: []string{"Tool.KeyKept"}, says: "the old effect"},
		"OutlivedItself": {
			tool:   external.Tool[in, out]{Perform: perform, Ref: refOf, KeyKept: time.Hour, Retention: dedup.Retention{Result: time.Minute, Tombstone: -1}},
			fields: []string{"Tool.KeyKept"}, says: "the record is kept for 1m0s",
		},
	} {
		c.tool.Name = cmp.Or(c.tool.Name, name)
		has := f.tools.Has(c.tool.Name)
		all := external.Problems(f.tools, c.tool)
		require.Equal(t, has, f.tools.Has(c.tool.Name), name)
		var fields []string
		for _, p := range all {
			fields = append(fields, p.Field)
		}
		require.Equal(t, c.fields, fields, name)
		_, err := external.Add(f.tools, c.tool)
		if c.fields == nil {
			require.NoError(t, err, name)
			require.True(t, f.tools.Has(name))
			continue
		}
		require.Contains(t, all[0].Reason, c.says, name)
		require.ErrorIs(t, err, dedup.ErrInvalid, name)
		for _, p := range all {
			require.ErrorContains(t, err, p.Error(), name)
		}
	}
	require.Same(t, f.d, f.tools.Deduper())
	alone := external.Problems(nil, external.Tool[in, out]{Name: "taken", Perform: perform, KeyKept: time.Hour, Retention: dedup.Retention{Result: -1}})
	require.Len(t, alone, 1, "without what depends on the Tools")
	require.Equal(t, "Tool.Ref", alone[0].Field)

	keepsNone, err := dedup.New(f.d.Pool(), &dedup.Options{Retention: dedup.Retention{Result: -1}})
	require.NoError(t, err)
	tools, err := external.New(keepsNone, nil)
	require.NoError(t, err)
	all := external.Problems(tools, external.Tool[in, out]{Name: "t", Perform: perform})
	require.Len(t, all, 1)
	require.Equal(t, "Retention", all[0].Field)
	require.Empty(t, external.Problems(tools, external.Tool[in, out]{Name: "t", Perform: perform, Retention: dedup.Retention{Result: time.Hour}}))

	_, err = external.New(nil, nil)
	require.ErrorIs(t, err, dedup.ErrInvalid)
	for _, opts := range []external.Options{{Lease: 1}, {Workers: -1}} {
		_, err := external.New(f.d, &opts)
		require.ErrorIs(t, err, dedup.ErrInvalid)
	}
}

func TestInvalidCalls(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) { return out{}, nil }})
	for name, c := range map[string]dedup.Call{
		"Scope": {Key: "k"}, "Key": {Scope: "acme"}, "Tool": {Scope: "acme", Key: "k", Tool: "other"}, "Args": {Scope: "acme", Key: "k", Args: []byte("x")},
	} {
		var invalid *dedup.InvalidError
		_, err := h.Do(f.ctx, c, in{1})
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, name, invalid.Field)
	}
	_, err := f.tools.Advance(f.ctx, "acme", "unknown", "k")
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.NoError(t, f.tools.Close(f.ctx))
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.ErrorIs(t, f.tools.Recover(f.ctx), dedup.ErrInvalid)
}
