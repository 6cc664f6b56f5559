package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/tool"
)

// TestRecordedIDs makes every call of recorded sessions, one to four in a message, with the ids
// that providers are known to send. Each message is delivered in whole, in part and call by call.
// Every call must take effect once, and none may be refused.
func TestRecordedIDs(t *testing.T) {
	t.Parallel()
	small, err := recording.Small()
	require.NoError(t, err)
	replayIDs(t, small)
}

// TestLongRecordedIDs is TestRecordedIDs with the large recording. docs/guide.md has its figures.
func TestLongRecordedIDs(t *testing.T) {
	t.Parallel()
	dir := recording.LargeDir()
	if dir == "" {
		t.Skip("no large recording: TAUBENCH_DIR is not set and ../shared/taubench is not there; TestRecordedIDs has the small one")
	}
	large, err := recording.Open(dir)
	require.NoError(t, err)
	replayIDs(t, large)
}

// recorded has the arguments of a recorded call. Seq is not compared: it says which call's effect
// was counted.
type recorded struct {
	Arguments json.RawMessage `json:"arguments"`
	Session   string          `json:"session" dedup:"ignore"`
	Seq       int             `json:"seq" dedup:"ignore"`
}

func replayIDs(t *testing.T, rec *recording.Recording) {
	t.Helper()
	for name, id := range ids {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			messages := messagesOf(t, rec)
			r := newReplay(t, rec)
			byID, byArgs := map[string]bool{}, map[string]bool{}
			// This test puts several recorded messages into one. Two equal calls in it that get one
			// usable id are one call.
			calls, taken, equal, same := 0, 0, 0, map[string]bool{}
			for _, m := range messages {
				for i := range m {
					m := &m[i]
					m.CallID = id(i, m.Tool)
					key := fmt.Sprintf("%s\x00%d\x00%s\x00%s", m.Session, m.Turn, m.Tool, m.CallID)
					if byID[key] {
						taken++
					}
					byID[key] = true
					var in recorded
					require.NoError(t, json.Unmarshal(m.Args, &in))
					key, err := dedup.KeyFromToolCallArgs(m.Session, m.Turn, m.Tool, in.Arguments, 0)
					require.NoError(t, err)
					if byArgs[key] {
						equal++
					}
					byArgs[key] = true
					if dedup.UsableToolCallID(m.CallID, m.Tool) {
						key += "\x00" + m.CallID
						if same[key] {
							continue
						}
						same[key] = true
					}
					calls++
				}
				for _, part := range [][]tool.Invocation{m[:1], m[:len(m)/2+1], m, m, m[len(m)/2:], m[:(len(m)+1)/2]} {
					r.deliver(t, part)
				}
			}
			var effects, distinct int
			require.NoError(t, r.pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT (session, seq)) FROM effects`).Scan(&effects, &distinct))
			t.Logf("%d calls in %d messages, %d deliveries of a call: swallowed %d, repeated %d, refused %d; session, turn and id alone name %d calls like an earlier one, session, turn and arguments %d",
				calls, len(messages), r.deliveries, calls-distinct, effects-distinct, r.refused, taken, equal)
			require.Equal(t, calls, distinct, "swallowed")
			require.Equal(t, calls, effects, "repeated")
			require.Zero(t, r.refused)
		})
	}
}

// messagesOf puts the calls of each session into messages of one to four.
func messagesOf(t *testing.T, rec *recording.Recording) (messages [][]tool.Invocation) {
	t.Helper()
	for _, s := range rec.Sessions {
		size := 0
		for _, c := range s.Calls {
			if c.InjectedByHarness {
				continue
			}
			args, err := json.Marshal(recorded{c.Arguments, s.ID, c.Seq})
			require.NoError(t, err)
			inv := tool.Invocation{Scope: "acme", Session: s.ID, Turn: c.Turn, Tool: c.Tool, Args: args}
			if size == 0 {
				messages = append(messages, nil)
				size = 1 + len(messages)%4
			}
			last := &messages[len(messages)-1]
			if len(*last) > 0 {
				inv.Turn = (*last)[0].Turn
			}
			*last = append(*last, inv)
			size--
		}
	}
	require.NotEmpty(t, messages)
	return messages
}

// idReplay is a registry of all recorded tools. Each tool writes its call to a table.
type idReplay struct {
	pool                *pgxpool.Pool
	tools               *tool.Registry
	deliveries, refused int
}

func newReplay(t *testing.T, rec *recording.Recording) *idReplay {
	t.Helper()
	r := &idReplay{pool: pgtest.New(t).Pool(t)}
	_, err := r.pool.Exec(t.Context(), `CREATE TABLE effects (session text, seq int)`)
	require.NoError(t, err)
	d, err := dedup.New(r.pool, nil)
	require.NoError(t, err)
	r.tools = tool.NewRegistry(d, nil)
	for _, s := range rec.Sessions {
		for _, c := range s.Calls {
			if _, there := r.tools.Lookup(c.Tool); there {
				continue
			}
			require.NoError(t, r.tools.Add(tool.Tool[recorded, int]{
				Name: c.Tool, Class: tool.Write,
				Run: func(ctx context.Context, tx pgx.Tx, in recorded) (int, error) {
					_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1, $2)`, in.Session, in.Seq)
					return in.Seq, err
				},
			}))
		}
	}
	return r
}

func (r *idReplay) deliver(t *testing.T, calls []tool.Invocation) {
	t.Helper()
	for _, o := range r.tools.InvokeAll(t.Context(), calls) {
		r.deliveries++
		if o.Err != nil {
			r.refused++
			t.Log(o.Err)
		}
	}
}

// TestOncePerRequestOnRecordings makes every recorded write, in order, through tools with
// OncePerRequest: none is swallowed within one request of the user. A write that failed in the
// recording fails here too, and is made again when the model repeats it.
func TestOncePerRequestOnRecordings(t *testing.T) {
	t.Parallel()
	dir := recording.LargeDir()
	if dir == "" {
		t.Skip("no recording: set TAUBENCH_DIR to the folder of the recorded calls")
	}
	rec, err := recording.Open(dir)
	require.NoError(t, err)
	b := setup(t, nil, nil)
	type in struct {
		Arguments json.RawMessage `json:"arguments"`
		Fails     bool            `json:"fails" dedup:"ignore"`
	}
	failed := errors.New("it answered an error then")
	writes, swallowed, alike := 0, 0, 0
	known := map[string]bool{}
	for _, s := range rec.Sessions {
		request, last := 0, -2
		for _, c := range s.Calls {
			if c.Turn > last+2 { // call, result and next call follow each other; a larger step is a turn of the user
				request++
			}
			last = c.Turn
			if c.Class != recording.Write || c.InjectedByHarness {
				continue
			}
			if _, there := b.tools.Lookup(c.Tool); !there {
				require.NoError(t, b.tools.Add(tool.Tool[in, int]{
					Name: c.Tool, Class: tool.Write, OncePerRequest: true,
					Run: func(_ context.Context, _ pgx.Tx, in in) (int, error) {
						if in.Fails {
							return 0, failed
						}
						return 0, nil
					},
				}))
			}
			args, err := json.Marshal(in{c.Arguments, c.IsError})
			require.NoError(t, err)
			answer, err := b.tools.Invoke(t.Context(), tool.Invocation{
				Scope: "acme", Session: s.ID, Request: fmt.Sprint(s.ID, "/", request), Turn: c.Turn, CallID: c.ToolCallID, Tool: c.Tool, Args: args,
			})
			if err != nil {
				require.ErrorIs(t, err, failed)
			}
			writes++
			if answer.Replayed {
				swallowed++
			}
			print, err := dedup.FingerprintOf(c.Arguments)
			require.NoError(t, err)
			same := c.Tool + print.String()
			if known[same] {
				alike++
			}
			known[same] = known[same] || !c.IsError
		}
	}
	t.Logf("%d writes; swallowed within a request %d, by tool and arguments alone %d", writes, swallowed, alike)
	require.Zero(t, swallowed)
	require.NotZero(t, writes)
	require.NotZero(t, alike, "the control: without the request")
}
