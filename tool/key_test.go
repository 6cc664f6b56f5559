package tool_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// One instant is one key and one call, in any offset and with any spelling of its fraction.
func TestKeyIsAnInstant(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		At    time.Time `json:"at" dedup:"key"`
		Title string    `json:"title"`
	}
	type nested struct {
		Room string `json:"room" dedup:"key"`
		Slot struct {
			From time.Time `json:"from" dedup:"key"`
		} `json:"slot"`
		Note string `json:"note,omitempty" dedup:"ignore"`
	}
	create := func(ctx context.Context, tx pgx.Tx, title string) (ticket, error) {
		return b.createTicket(ctx, tx, ticketIn{Title: title})
	}
	require.NoError(t, b.tools.Add(
		tool.Tool[in, ticket]{Name: "book", Class: tool.Write, Run: func(ctx context.Context, tx pgx.Tx, in in) (ticket, error) { return create(ctx, tx, in.Title) }},
		tool.Tool[nested, ticket]{Name: "rent", Class: tool.Write, Run: func(ctx context.Context, tx pgx.Tx, in nested) (ticket, error) { return create(ctx, tx, in.Room) }},
	))
	for name, args := range map[string]string{
		"book": `{"title":"a","at":"%"}`,
		"rent": `{"room":"a","slot":{"from":"%"}}`,
	} {
		spelled := func(at string) tool.Invocation { return call(name, "", strings.ReplaceAll(args, "%", at)) }
		before := b.count(t, "tickets")
		first := b.invoke(t, spelled("2026-03-01T00:30:00Z"))
		for _, same := range []string{
			"2026-03-01T00:30:00.000Z", "2026-03-01T00:30:00+00:00", "2026-03-01T01:30:00+01:00",
			"2026-02-28T19:30:00.0-05:00",
		} {
			again := b.invoke(t, spelled(same))
			require.True(t, again.Replayed, same)
			require.Equal(t, first.Key, again.Key, same)
			require.Equal(t, first.JSON, again.JSON, same)
		}
		for _, other := range []string{"2026-03-01T00:30:00+01:00", "2026-03-01T00:30:00.001Z"} {
			answer := b.invoke(t, spelled(other))
			require.False(t, answer.Replayed, other)
			require.NotEqual(t, first.Key, answer.Key, other)
		}
		require.Equal(t, before+3, b.count(t, "tickets"))
	}
	intent, err := dedup.KeyFromIntent("2026-03-01T00:30:00Z")
	require.NoError(t, err)
	answer, err := b.tools.Invoke(t.Context(), call("book", "", `{"title":"b","at":"2026-03-01T01:30:00+01:00"}`))
	var reused *dedup.Error
	require.ErrorAs(t, err, &reused, "the other arguments are compared")
	require.Equal(t, []string{"title"}, reused.Changed)
	require.Equal(t, intent, answer.Key, "the key of an instant in UTC is what it was")
}

// folded reads a text in either case and writes it in lower case.
type folded struct{ upper }

func (f *folded) UnmarshalText(text []byte) error {
	return f.upper.UnmarshalText([]byte(strings.ToUpper(string(text))))
}

// A type with a MarshalText is compared by the text that also makes its key.
func TestKeyIsComparedByItsText(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		Ref folded `json:"ref" dedup:"key"`
	}
	require.NoError(t, b.tools.Add(of[in]()))
	first := b.invoke(t, call("t", "", `{"ref":"ab-1"}`))
	again := b.invoke(t, call("t", "", `{"ref":"AB-1"}`))
	require.True(t, again.Replayed)
	require.Equal(t, first.Key, again.Key)
	require.ErrorIs(t, b.fails(t, call("t", first.Key, `{"ref":""}`)), dedup.ErrKeyReused, "another way to the same key is another call")
}
