package httpdedup_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
)

// sentIDs are the ways in which clients are known to send the calls of a message: what
// stands in Idempotency-Key, nothing where it is "-".
var sentIDs = map[string]func(turn, i int, tool string) string{
	"Absent":      func(int, int, string) string { return "-" },
	"Empty":       func(int, int, string) string { return "" },
	"Empty text":  func(int, int, string) string { return `""` },
	"null":        func(int, int, string) string { return "null" },
	"null text":   func(int, int, string) string { return `"null"` },
	"None":        func(int, int, string) string { return "None" },
	"Tool's name": func(_, _ int, tool string) string { return tool },
	"Usable": func(turn, i int, _ string) string {
		key, err := dedup.KeyFromToolCall("conversation 17", turn, fmt.Sprintf("call_%d", i))
		if err != nil {
			panic(err)
		}
		return key
	},
}

// However the calls of a message are identified, each of them takes effect once, and
// whatever comes again is answered from the records.
func TestTurnsMakeKeys(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	for _, tool := range []string{"create_order", "change_order"} {
		s.handle("POST /"+tool, tool, order)
	}
	orders := 0
	for name, id := range sentIDs {
		send := func(turn, i int) (reply, error) {
			tool := []string{"create_order", "create_order", "change_order", "create_order"}[i]
			return s.send(s.request(t, http.MethodPost, "/"+tool, "", fmt.Sprintf(`{"item":"%d"}`, i/2*2+i%2*3), as(name), func(r *http.Request) {
				r.Header.Set("Agent-Turn", fmt.Sprintf(`"conversation 17"; turn=%d`, turn))
				if key := id(turn, i, tool); key != "-" {
					r.Header["Idempotency-Key"] = []string{key}
				}
			}))
		}
		for turn := 1; turn <= 2; turn++ {
			first := make([]reply, 4)
			var all sync.WaitGroup
			for i := range first {
				all.Go(func() {
					var err error
					if first[i], err = send(turn, i); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			for _, r := range first {
				require.Equal(t, http.StatusCreated, r.status, "%s: %s", name, r.body)
				require.False(t, r.replayed(), name)
			}
			orders += len(first)
			require.Equal(t, orders, s.count(t, "orders"), name)
			for _, part := range [][]int{{0, 1, 2, 3}, {3}, {2, 0}, {0, 0, 1}} {
				for _, i := range part {
					again, err := send(turn, i)
					require.NoError(t, err)
					require.True(t, again.replayed(), "%s: %s", name, again.body)
					require.Equal(t, first[i].body, again.body, name)
				}
			}
			require.Equal(t, orders, s.count(t, "orders"), name)
		}
	}
	require.Empty(t, s.told())
}

// Without a turn a text that names no single request is no key, and a key of its own goes
// before the turn.
func TestTurnsAndKeys(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)
	turn := func(line ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Agent-Turn"] = line }
	}
	for _, key := range []string{"null", "None", "create_order"} {
		refused := s.post(t, key, `{"item":"a"}`)
		require.Equal(t, http.StatusBadRequest, refused.status)
		require.Equal(t, "invalid-key", refused.problem(t).Type)
		require.NotContains(t, refused.body, "create_order")
	}
	require.Equal(t, "missing-key", s.post(t, "", `{"item":"a"}`).problem(t).Type)
	for _, lines := range [][]string{
		{""}, {"s"}, {`"s"; turn=0`}, {`"s"; turn=-1`}, {`"s"; turn=x`}, {`"s"; turn="4"`}, {`"s"; turn`}, {`""; turn=4`}, {`; turn=4`},
		{`"s"; turn=4`, `"s"; turn=4`}, {`"s; turn=4`}, {`"s", turn=4`}, {`s; turn=4`}, {`"s"; turn=99999999999999999999`},
	} {
		refused := s.post(t, "", `{"item":"a"}`, turn(lines...))
		require.Equal(t, http.StatusBadRequest, refused.status, lines)
		require.Equal(t, "invalid-request", refused.problem(t).Type, lines)
	}
	require.Zero(t, s.count(t, "orders"))

	require.Equal(t, http.StatusCreated, s.post(t, "k", `{"item":"a"}`, turn("malformed; and ignored")).status)
	require.True(t, s.post(t, "k", `{"item":"a"}`, turn(`"s"; turn=4`)).replayed())
	require.False(t, s.post(t, "", `{"item":"a"}`, turn(`"s"; turn=4`)).replayed(), "a call of its own")
	require.True(t, s.post(t, "null", `{"item":"a"}`, turn(`"s";x="y";turn=4;z`)).replayed())
	for _, other := range []string{`"s"; turn=5`, `"t"; turn=4`} {
		require.False(t, s.post(t, "", `{"item":"a"}`, turn(other)).replayed())
	}
	require.False(t, s.post(t, "", `{"item":"a"}`, turn(`"s"; turn=4`), as("other")).replayed(), "another client's")
	require.Equal(t, 5, s.count(t, "orders"))
	require.Empty(t, s.told())
}

// Tools outside of the database take turns as handlers do, and are found by the key that
// was made.
func TestTurnsOfExternalTools(t *testing.T) {
	t.Parallel()
	s := openTill(t, httpdedup.Options{})
	turn := func(r *http.Request) { r.Header.Set("Agent-Turn", `"conversation 17"; turn=4`) }
	first := s.charge(t, "", "a", turn)
	require.Equal(t, http.StatusOK, first.status, first.body)
	require.False(t, s.charge(t, "", "b", turn).replayed())
	again := s.charge(t, "charge", "a", turn)
	require.True(t, again.replayed())
	require.Equal(t, first.body, again.body)
	require.NotEmpty(t, again.header.Get("Dedup-Kept-Until"))

	parked := s.charge(t, "", "lost", turn)
	require.Equal(t, http.StatusAccepted, parked.status)
	require.Contains(t, s.do(t, http.MethodGet, parked.header.Get("Location"), "", "").body, "parked")
}

// A call without a key that comes again under another host is another request with the
// same key, as one with a key is: it is not run again.
func TestTurnUnderAnotherHost(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /create_order", "create_order", order)
	send := func(host string) reply {
		r, err := s.send(s.request(t, http.MethodPost, "/create_order", "", `{"item":"1"}`, func(r *http.Request) {
			r.Header.Set("Agent-Turn", `"conversation 17"; turn=1`)
			r.Host = host
		}))
		require.NoError(t, err)
		return r
	}
	require.Equal(t, http.StatusCreated, send("a.example").status)
	require.Equal(t, http.StatusUnprocessableEntity, send("b.example").status)
	require.True(t, send("a.example:443").replayed())
	require.Equal(t, 1, s.count(t, "orders"))
}
