package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/table"
)

// toolsOf returns Tools on a new database.
func toolsOf(t *testing.T, opts *Options) *Tools {
	t.Helper()
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	x, err := New(d, opts)
	require.NoError(t, err)
	return x
}

// states are the rows from which every event starts: their columns, as SQL.
var states = map[string]string{
	"pending":     `'pending', NULL, NULL, clock_timestamp()`,
	"pending off": `'pending', NULL, NULL, clock_timestamp() + interval '1 hour'`,
	"running":     `'running', clock_timestamp() - interval '1 hour', clock_timestamp() + interval '1 hour', clock_timestamp() + interval '1 hour'`,
	"running due": `'running', clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 minute', clock_timestamp()`,
	"parked":      `'parked', clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 minute', NULL`,
	"parked due":  `'parked', clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 minute', clock_timestamp()`,
	"done":        `'done', clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 minute', NULL`,
	"done due":    `'done', clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 minute', clock_timestamp()`,
}

// events are the changes of a row, and the state after each, by the state before. If a state is
// missing, the event must leave the row unchanged: it is too late, or its act does not hold the
// operation.
var events = map[string]struct {
	do func(ctx context.Context, x *Tools, h *held) error
	to map[string]State
	// anyFence is true for a success: it is recorded with any fence.
	anyFence bool
	// keeps is true if the fence stays, because the act continues or has ended. Otherwise an act
	// that read the row before comes too late.
	keeps bool
}{
	"take to send": {
		do: func(ctx context.Context, x *Tools, h *held) error { return x.take(ctx, h, purpose{sends: true}) },
		to: map[string]State{"pending": StateRunning, "running due": StateRunning, "parked due": StateRunning},
	},
	"take to look": {
		do: func(ctx context.Context, x *Tools, h *held) error { return x.take(ctx, h, purpose{}) },
		to: map[string]State{"pending": StatePending, "running due": StateRunning, "parked due": StateParked},
	},
	"send after a look": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			return x.take(ctx, h, purpose{sends: true, goesOn: true})
		},
		to: map[string]State{"pending": StateRunning, "pending off": StateRunning, "running": StateRunning, "running due": StateRunning, "parked": StateRunning, "parked due": StateRunning},
	},
	"extend": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			l := newLease(x, h)
			l.end = time.Now().Add(time.Minute)
			if !l.renew(ctx) {
				return errStale
			}
			return nil
		},
		to:    map[string]State{"running": StateRunning, "running due": StateRunning},
		keeps: true,
	},
	"not done, the only attempt": {
		do: func(ctx context.Context, x *Tools, h *held) error { return x.release(ctx, h, "429") },
		to: map[string]State{"running": StatePending, "running due": StatePending},
	},
	"not done, others before it": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			h.earlierUntil = &h.row.createdAt
			return x.release(ctx, h, "429")
		},
		to: map[string]State{"pending": StatePending, "pending off": StatePending, "running": StateRunning, "running due": StateRunning, "parked": StateParked, "parked due": StateParked, "done": StateDone, "done due": StateDone},
	},
	"unknown": {
		do: func(ctx context.Context, x *Tools, h *held) error { return x.postpone(ctx, h, "lost", true) },
		to: map[string]State{"pending": StatePending, "pending off": StatePending, "running": StateRunning, "running due": StateRunning, "parked": StateParked, "parked due": StateParked, "done": StateDone, "done due": StateDone},
	},
	"not settled": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			return x.change(ctx, h, x.sql.settleLater, time.Second, h.row.sentUntil)
		},
		to: map[string]State{"running": StateRunning, "running due": StateRunning},
	},
	"park": {
		do: func(ctx context.Context, x *Tools, h *held) error { return x.park(ctx, h, "lost") },
		to: map[string]State{"pending": StateParked, "pending off": StateParked, "running": StateParked, "running due": StateParked, "parked": StateParked, "parked due": StateParked},
	},
	"success": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			a := &act{}
			x.record(ctx, a, h, json.RawMessage(`{"id":"ch_1"}`))
			if errors.Is(a.err, errForgotten) { // its record is forgotten: Finish must not run again
				return errStale
			}
			return a.err
		},
		to:       map[string]State{"pending": StateDone, "pending off": StateDone, "running": StateDone, "running due": StateDone, "parked": StateDone, "parked due": StateDone},
		anyFence: true,
	},
	"success that Finish does not record": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			return x.parkUnrecorded(ctx, h, "", verdict{verdictHappened, `{"id":"ch_1"}`}, errors.New("the ledger is closed"))
		},
		to:       map[string]State{"pending": StateParked, "pending off": StateParked, "running": StateParked, "running due": StateParked, "parked": StateParked, "parked due": StateParked},
		anyFence: true,
	},
	"refusal": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			a := &act{}
			x.recordRefusal(ctx, a, h, dedup.Final(errors.New("declined")), false)
			if errors.Is(a.err, dedup.ErrRefused) {
				return nil
			}
			return a.err
		},
		to:    map[string]State{"pending": StateDone, "pending off": StateDone, "running": StateDone, "running due": StateDone, "parked": StateDone, "parked due": StateDone},
		keeps: true,
	},
	"verdict": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			_, err := x.store(ctx, h.row.operation(), Happened(map[string]string{"id": "x"}, "seen"))
			return err
		},
		to: map[string]State{"pending": StatePending, "pending off": StatePending, "running due": StateParked, "parked": StateParked, "parked due": StateParked},
	},
	"verdict never": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			_, err := x.store(ctx, h.row.operation(), Never("not seen"))
			return err
		},
		to: map[string]State{"pending": StatePending, "pending off": StatePending, "running due": StatePending, "parked": StatePending, "parked due": StatePending},
	},
	"take to recheck": {
		do: func(ctx context.Context, x *Tools, h *held) error {
			return x.change(ctx, h, x.sql.recheck, x.opts.Lease)
		},
		to: map[string]State{"done due": StateDone},
	},
	"rechecked": {
		do:    func(ctx context.Context, x *Tools, h *held) error { return x.change(ctx, h, x.sql.rechecked, nil) },
		to:    map[string]State{"done": StateDone, "done due": StateDone},
		keeps: true,
	},
}

// insert inserts a row and reads it.
func insert(t *testing.T, x *Tools, key, columns string) *row {
	t.Helper()
	_, err := x.pool.Exec(t.Context(), `INSERT INTO tool_effect (scope, tool, key, state, sent_at, sent_until, due_at, fence, tries, looked, fingerprint, input, created_at, changed_at)
		SELECT 'acme', 'charge', $1, `+columns+`, 7, 1, false, '\x`+fmt.Sprintf("%064x", 7)+`', '"in"', now(), now()`, key)
	require.NoError(t, err)
	r, err := x.read(t.Context(), table.Identity{Scope: "acme", Tool: "charge", Key: key})
	require.NoError(t, err)
	return r
}

// TestStates tries every event in every state, by the act that holds the operation and by one that
// was overtaken.
func TestStates(t *testing.T) {
	t.Parallel()
	ctx, x := t.Context(), toolsOf(t, nil)
	_, err := Add(x, Tool[string, map[string]string]{
		Name: "charge", Ref: func(out map[string]string) string { return out["id"] },
		Perform: func(context.Context, Attempt, string) (map[string]string, error) {
			return nil, errors.New("not performed here")
		},
	})
	require.NoError(t, err)
	for state, columns := range states {
		for event, e := range events {
			for _, holds := range []bool{true, false} {
				key := fmt.Sprintf("%s, %s, %v", state, event, holds)
				before := insert(t, x, key, columns)
				seen := *before
				if !holds {
					seen.fence--
				}
				err := e.do(ctx, x, &held{row: &seen, t: x.tool("charge"), began: time.Now()})
				if !errors.Is(err, errStale) {
					require.NoError(t, err, key)
				}
				after, err := x.read(ctx, before.Identity)
				require.NoError(t, err)
				to, moves := e.to[state]
				if moves && (holds || e.anyFence) {
					require.Equal(t, to, after.state, key)
					before.now = after.now
					require.NotEqual(t, before, after, key)
					require.Equal(t, e.keeps, before.fence == after.fence, key)
					continue
				}
				before.now = after.now
				require.Equal(t, before, after, key)
				status, err := x.d.Lookup(ctx, "acme", "charge", key)
				require.NoError(t, err)
				require.Equal(t, dedup.StateNotFound, status.State, "%s: a record was left behind", key)
			}
		}
	}
}

// TestForgetWaits lets forget wait for a connection until the context ends. The error has the
// number of connections in use.
func TestForgetWaits(t *testing.T) {
	t.Parallel()
	x := toolsOf(t, nil)
	for range x.pool.Config().MaxConns {
		conn, err := x.pool.Acquire(t.Context())
		require.NoError(t, err)
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := x.forget(ctx, x.pool, &row{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "are in use")
}

// TestReadLongAgo pauses a process after it has read that an operation is due. If sending has
// become unsafe by then, nothing is sent: a late attempt has ended meanwhile and must settle, or
// the provider may have forgotten the key.
func TestReadLongAgo(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const hourAgo, dayAgo = `clock_timestamp() - interval '1 hour'`, `clock_timestamp() - interval '25 hours'`
	for name, c := range map[string]struct {
		tool      Tool[string, string]
		columns   string
		meanwhile string
		reads     func(r *row) // runs before the pause
		state     State        // at the end, if nothing is sent
	}{
		"Settles": {
			tool:    Tool[string, string]{Settles: time.Minute, Find: func(context.Context, Attempt, string) ([]string, error) { return nil, nil }},
			columns: `'running', ` + hourAgo + `, ` + hourAgo + `, clock_timestamp()`, meanwhile: `UPDATE tool_effect SET sent_until = clock_timestamp()`,
			reads: func(*row) {}, state: StateRunning,
		},
		"KeyForgotten": {
			tool:    Tool[string, string]{KeyKept: 24 * time.Hour},
			columns: `'running', ` + dayAgo + `, ` + dayAgo + `, clock_timestamp()`,
			reads: func(r *row) {
				due := r.sentAt.Add(time.Minute)
				r.now, r.dueAt = due, &due
			},
			state: StateParked, meanwhile: `UPDATE tool_effect SET unmarked = true`,
		},
	} {
		x := toolsOf(t, nil)
		c.tool.Name, c.tool.Ref = "charge", func(out string) string { return out }
		c.tool.Perform = func(context.Context, Attempt, string) (string, error) {
			t.Errorf("%s: it is sent", name)
			return "", errors.New("lost")
		}
		_, err := Add(x, c.tool)
		require.NoError(t, err)
		read := insert(t, x, "k", c.columns)
		_, err = x.pool.Exec(ctx, c.meanwhile)
		require.NoError(t, err)
		c.reads(read)
		x.advance(ctx, &act{}, x.tool("charge"), read, time.Now())
		after, err := x.read(ctx, read.Identity)
		require.NoError(t, err)
		if c.state == StateParked { // by an act that reads the current row
			require.Equal(t, StateRunning, after.state)
			x.advance(ctx, &act{}, x.tool("charge"), after, time.Now())
			after, err = x.read(ctx, read.Identity)
			require.NoError(t, err)
		} else {
			require.Greater(t, after.dueAt.Sub(after.now), 30*time.Second)
		}
		require.Equal(t, c.state, after.state)
	}
}
