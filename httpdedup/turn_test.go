package httpdedup_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/httpdedup"
)

// noKeys are the values that clients are known to send in Idempotency-Key if the model's provider
// gave no id.
var noKeys = map[string][]string{
	"Absent": nil, "Empty": {""}, "Empty text": {`""`}, "Parameters": {`""; a=1`}, "null": {"null"}, "null text": {`"null"`}, "None": {"None"}, "Tool's name": {"create_order"},
}

// A call with a turn and no key is identified by scope, session, turn, tool and contents. The host
// is compared, and is not part of the key.
func TestTurnsMakeKeys(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)
	s.handle("POST /changes", "change_order", order)
	send := func(line, path, body string, change ...func(*http.Request)) reply {
		r := s.request(t, http.MethodPost, path, "", body, change...)
		r.Header.Set("Agent-Turn", line)
		got, err := s.send(r)
		require.NoError(t, err)
		return got
	}
	const turn, lamp = `"conversation 17"; turn=4`, `{"item": "lamp"}`
	first := send(turn, "/orders", lamp)
	require.Equal(t, http.StatusCreated, first.status, first.body)
	require.False(t, first.replayed())
	for name, lines := range noKeys {
		again := send(`"conversation 17";x="y";turn=4;z`, "/orders", lamp, func(r *http.Request) { r.Header["Idempotency-Key"] = lines })
		require.True(t, again.replayed(), "%s: %s", name, again.body)
		require.Equal(t, first.body, again.body, name)
	}
	for name, other := range map[string]reply{
		"Turn":     send(`"conversation 17"; turn=5`, "/orders", lamp),
		"Session":  send(`"conversation 18"; turn=4`, "/orders", lamp),
		"Tool":     send(turn, "/changes", lamp),
		"Contents": send(turn, "/orders", `{"item": "chair"}`),
		"Scope":    send(turn, "/orders", lamp, as("globex")),
		"Key":      send(turn, "/orders", lamp, func(r *http.Request) { r.Header.Set("Idempotency-Key", "k") }),
	} {
		require.Equal(t, http.StatusCreated, other.status, name)
		require.False(t, other.replayed(), name)
	}
	elsewhere := send(turn, "/orders", lamp, func(r *http.Request) { r.Host = "b.example" })
	require.Equal(t, []string{"Host"}, elsewhere.problem(t).Changed)
	require.True(t, s.post(t, "k", lamp).replayed(), "a key goes before the turn")
	require.Equal(t, 7, s.count(t, "orders"))
	require.Empty(t, s.told())
}

// Without a turn, a text that names no single request is not accepted as a key. A malformed turn is
// refused if it is needed.
func TestTurnsAndKeys(t *testing.T) {
	t.Parallel()
	s := open(t, httpdedup.Options{})
	s.handle("POST /orders", "create_order", order)
	for name, lines := range noKeys {
		refused := s.post(t, "", `{"item":"a"}`, func(r *http.Request) { r.Header["Idempotency-Key"] = lines }).problem(t)
		kind, detail := "invalid-key", "names no single call"
		switch {
		case lines == nil:
			kind, detail = "missing-key", "Send an Idempotency-Key"
		case strings.HasPrefix(name, "Empty"), name == "Parameters":
			detail = "is empty"
		}
		require.Equal(t, kind, refused.Type, name)
		require.Contains(t, refused.Detail, detail, name)
		require.NotContains(t, refused.Detail, "create_order", name)
	}
	for i, lines := range [][]string{
		{""}, {"s"}, {`"s"; turn=0`}, {`"s"; turn=-1`}, {`"s"; turn=x`}, {`"s"; turn="4"`}, {`"s"; turn`}, {`""; turn=4`}, {`; turn=4`},
		{`"s"; turn=4`, `"s"; turn=4`}, {`"s; turn=4`}, {`"s", turn=4`}, {`s; turn=4`}, {`"s"; turn=99999999999999999999`},
	} {
		turn := func(r *http.Request) { r.Header["Agent-Turn"] = lines }
		require.Equal(t, "invalid-request", s.post(t, "", `{"item":"a"}`, turn).problem(t).Type, lines)
		require.Equal(t, http.StatusCreated, s.post(t, fmt.Sprint("k", i), `{"item":"a"}`, turn).status, "it is ignored beside a key")
	}
}

// External tools accept turns as handlers do, and their operations are found by the key that was
// made.
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
