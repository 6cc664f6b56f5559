package lookalikes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/tool"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// made is a recording of one session: each letter is a call's arguments, a
// capital a call that failed. A session's calls are 2 messages apart.
func made(sessions ...string) *recording.Recording {
	rec := &recording.Recording{}
	for i, letters := range sessions {
		session := recording.Session{ID: string(rune('0' + i))}
		for n, letter := range letters {
			failed := letter < 'a'
			if failed {
				letter += 'a' - 'A'
			}
			session.Calls = append(session.Calls, recording.Call{
				Session: session.ID, Seq: n, Turn: 2 * n, ToolCallID: "call", Tool: "book", Class: recording.Write,
				Arguments: json.RawMessage(`{"what": "` + string(letter) + `"}`), IsError: failed,
			})
		}
		session.Calls = append(session.Calls, recording.Call{Seq: len(letters), Tool: "think", Class: recording.Noop})
		rec.Sessions = append(rec.Sessions, session)
	}
	return rec
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	report, err := Measure(made("abab", "AAAa", "aA", "a"))
	require.NoError(t, err)
	require.Equal(t, []Repeats{{Tool: "book", Writes: 11, AfterFailure: 2, Repaired: 1, SecondAction: 2, TooLate: 1}}, report.Tools)
}

func TestSpoken(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		calls string
		Setting
		spoken, second int
	}{
		{"aa", Setting{}, 1, 1},
		{"aa", Setting{Refuse: true}, 1, 1},
		{"aaa", Setting{Refuse: true}, 2, 2},
		{"abba", Setting{Within: 2}, 1, 1},
		{"abba", Setting{Within: 6}, 2, 2},
		{"AA", Setting{}, 0, 0},
		{"AA", Setting{FailuresAreResults: true}, 1, 0},
		{"Aa", Setting{Refuse: true}, 0, 0},
		{"Aa", Setting{Refuse: true, FailuresAreResults: true}, 1, 0},
		{"aA", Setting{}, 0, 0},
		{"aA", Setting{Refuse: true}, 1, 0},
	} {
		writes, err := writesOf(made(tt.calls).Sessions[0])
		require.NoError(t, err)
		spoken := Spoken{Setting: tt.Setting}
		spoken.add(writes)
		require.Equal(t, Spoken{tt.Setting, tt.spoken, tt.second}, spoken, tt.calls)
	}
}

// What is counted is what the guard does.
func TestCountIsTheGuards(t *testing.T) {
	t.Parallel()
	recordings := map[string]*recording.Recording{"made": made("abab", "AAAa", "aA", "aaAa", "Aaa")}
	if dir := recording.LargeDir(); dir != "" {
		rec, err := recording.Open(dir)
		require.NoError(t, err)
		recordings["recorded"] = rec
	} else {
		t.Log("without the recorded sessions")
	}
	for name, rec := range recordings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report, err := Measure(rec)
			require.NoError(t, err)
			for _, want := range report.Settings {
				if want.Within == 0 {
					require.Equal(t, want, guarded(t, rec, want.Setting))
				}
			}
		})
	}
}

// guarded makes a recording's writes through a registry with a guard.
func guarded(t *testing.T, rec *recording.Recording, setting Setting) Spoken {
	t.Helper()
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	type in struct {
		Args   json.RawMessage `json:"args"`
		Failed bool            `json:"failed" dedup:"ignore"`
	}
	action := tool.Report
	if setting.Refuse {
		action = tool.Refuse
	}
	failed := errors.New("failed")
	tools := tool.NewRegistry(d, nil)
	spoken := Spoken{Setting: setting}
	for _, session := range rec.Sessions {
		for _, call := range session.Calls {
			if call.Class != recording.Write {
				continue
			}
			if _, found := tools.Lookup(call.Tool); !found {
				require.NoError(t, tools.Add(tool.Tool[in, bool]{
					Name: call.Tool, Class: tool.Write, Lookalikes: tool.LookalikeGuard{Action: action},
					Run: func(_ context.Context, _ pgx.Tx, in in) (bool, error) {
						if in.Failed && !setting.FailuresAreResults {
							return false, failed
						}
						return !in.Failed, nil
					},
				}))
			}
			args, err := json.Marshal(in{call.Arguments, call.IsError})
			require.NoError(t, err)
			answer, err := tools.Invoke(t.Context(), tool.Invocation{
				Scope: "acme", Session: session.ID, Turn: call.Turn, CallID: call.ToolCallID, Tool: call.Tool, Args: args,
			})
			earlier := answer.Lookalike
			var alike *tool.LookalikeError
			if errors.As(err, &alike) {
				earlier = &alike.Earlier
			} else if !errors.Is(err, failed) {
				require.NoError(t, err)
			}
			if earlier != nil {
				spoken.Calls++
				if !call.IsError && string(earlier.Result) == "true" {
					spoken.SecondActions++
				}
			}
		}
	}
	return spoken
}

func TestCommand(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (code int, out, errOut string) {
		var o, e bytes.Buffer
		code = cli.Run(t.Context(), append([]string{"lookalikes"}, args...), cli.Streams{Out: &o, Err: &e}, Command())
		return code, o.String(), e.String()
	}
	code, out, errOut := run()
	require.Equal(t, exit.OK, code, errOut)
	require.Contains(t, out, "all, in 6 sessions")
	require.Contains(t, out, "report")

	code, _, errOut = run(t.TempDir())
	require.Equal(t, exit.Misused, code)
	require.Contains(t, errOut, "trajectories.jsonl")
	code, _, _ = run("a", "b")
	require.Equal(t, exit.Misused, code)

	broken := made("a")
	broken.Sessions[0].Calls[0].Arguments = json.RawMessage(`{`)
	_, err := Measure(broken)
	require.ErrorContains(t, err, "session 0, call 0")
}
