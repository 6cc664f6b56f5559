package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestStatus goes through the states of calls as a caller of Status sees them.
func TestStatus(t *testing.T) {
	t.Parallel()
	f := process(t, pgtest.New(t).Pool(t))
	entered, release := make(chan struct{}), make(chan struct{})
	h := add(f, external.Tool[in, out]{Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
		switch i.Order {
		case 1:
			return out{}, errLost
		case 2:
			return out{}, dedup.Final(errors.New("card declined"))
		case 3:
			close(entered)
			<-release
		}
		return out{"ch_1"}, nil
	}})
	status := func(key string, want external.State) external.Status {
		t.Helper()
		s, err := f.tools.Status(f.ctx, "acme", "charge", key)
		require.NoError(t, err)
		require.Equal(t, want, s.State)
		require.Equal(t, key, s.Operation.Key)
		return s
	}
	status("none", external.StateNone)

	accept(f, h, "pending", 0)
	require.Zero(t, status("pending", external.StatePending).Operation.SentAt)

	_, err := h.Do(f.ctx, call("parked"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.Zero(t, status("parked", external.StateParked).Record.State)

	_, err = h.Do(f.ctx, call("refused"), in{2})
	require.ErrorIs(t, err, dedup.ErrRefused)
	require.Equal(t, "card declined", status("refused", external.StateRefused).Record.Refusal.Message)

	slow := make(chan error)
	go func() {
		_, err := h.Do(f.ctx, call("running"), in{3})
		slow <- err
	}()
	<-entered
	status("running", external.StateRunning)
	close(release)
	require.NoError(t, <-slow)
	require.JSONEq(t, `{"id":"ch_1"}`, string(status("running", external.StateDone).Record.Result))

	f.exec(`UPDATE tool_dedup SET expires_at = created_at`)
	status("running", external.StateExpired)
	f.exec(`DELETE FROM tool_dedup`)
	status("running", external.StateParked) // as Do's ParkedError
	_, err = h.Do(f.ctx, call("running"), in{3})
	require.ErrorAs(t, err, new(*external.ParkedError))
	f.exec(`UPDATE tool_effect SET forget_at = clock_timestamp() WHERE state = 'done'`)
	status("running", external.StateNone) // the key may be used anew

	// A call of package dedup alone has a record only.
	_, err = dedup.Do(f.ctx, f.d, dedup.Call{Scope: "acme", Tool: "import", Key: "k"}, func(context.Context, pgx.Tx) (int, error) { return 3, nil })
	require.NoError(t, err)
	s, err := f.tools.Status(f.ctx, "acme", "import", "k")
	require.NoError(t, err)
	require.Equal(t, external.StateDone, s.State)
	require.Equal(t, "3", string(s.Record.Result))
	_, err = f.tools.Status(f.ctx, "acme", "", "k")
	require.ErrorIs(t, err, dedup.ErrInvalid)
}

// TestDoByName makes calls with JSON, and refuses an input that the tool cannot read.
func TestDoByName(t *testing.T) {
	t.Parallel()
	f := process(t, pgtest.New(t).Pool(t))
	p := newProvider()
	h := add(f, external.Tool[in, out]{Perform: func(_ context.Context, a external.Attempt, i in) (out, error) { return p.act(a.Key, i.Order), nil }})
	named := call("k")
	named.Tool = "charge"
	first, err := f.tools.Do(f.ctx, named, json.RawMessage(`{"order": 7}`))
	require.NoError(t, err)
	require.Equal(t, `{"id":"ch_1"}`, string(first.Value))
	again, err := h.Do(f.ctx, call("k"), in{7})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, out{"ch_1"}, again.Value)

	named.Key = "k2"
	for text, reason := range map[string]string{
		`{"order": "seven"}`: `invalid call: in does not fit the tool's input at "order"`,
		`{"order": 1.5}`:     `invalid call: in does not fit the tool's input at "order"`,
		`{"oder": 1}`:        `invalid call: in has a member that the tool's input lacks, at or in "oder"`,
		`[]`:                 "invalid call: in cannot be read as the tool's input",
	} {
		_, err = f.tools.Do(f.ctx, named, json.RawMessage(text))
		require.ErrorContains(t, err, reason)
		require.ErrorIs(t, err, dedup.ErrInvalid)
	}
	_, err = f.tools.Do(f.ctx, named, json.RawMessage(`{"order": 1, "order": 2}`))
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.Equal(t, external.StateNone, f.lookup("k2").State)
	named.Tool = "other"
	_, err = f.tools.Do(f.ctx, named, json.RawMessage(`{}`))
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.Equal(t, 1, p.effects())
}
