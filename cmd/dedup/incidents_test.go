package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// incident is a service in trouble, and an operator who has only the command. Each test is a
// section of the runbook: the operator finds, explains and settles the fault.
type incident struct {
	t    *testing.T
	db   *pgtest.DB
	pool *pgxpool.Pool
	d    *dedup.Deduper
}

func newIncident(t *testing.T) *incident {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Pool(t)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	return &incident{t, db, pool, d}
}

// sweeps runs the service's Sweeper once. The Sweeper also records the counts.
func (i *incident) sweeps() {
	i.t.Helper()
	s, err := dedup.NewSweeper(i.d, &dedup.SweeperOptions{RecordStats: true})
	require.NoError(i.t, err)
	ended, cancel := context.WithCancel(i.t.Context())
	cancel()
	require.ErrorIs(i.t, s.Run(ended), context.Canceled) // its last act
	_, err = i.d.Sweep(i.t.Context(), nil)
	require.NoError(i.t, err)
}

// line is one line of --json, of any command.
type line struct {
	Kind, Scope, Tool, Key, State, Outcome, Note, Do string
	Action, Actor, Reason                            string
	Fence, Calls, Duplicates                         int64
	PID                                              int32
	Rate                                             float64 `json:"duplicate_rate"`
	CreatedAt                                        string  `json:"created_at"`
	Sessions                                         []struct{ PID int32 }
	Fingerprint                                      string
}

// operator runs the command, requires its exit code, and parses its output.
func (i *incident) operator(code int, args ...string) (all []line) {
	i.t.Helper()
	cmd, out, errOut := program(i.t, append(args, "--json", "--database-url", i.db.URL)...)
	_ = cmd.Run()
	require.Equal(i.t, code, cmd.ProcessState.ExitCode(), "%v: %s%s", args, out, errOut)
	for text := range strings.Lines(out.String()) {
		var one line
		require.NoError(i.t, json.Unmarshal([]byte(text), &one), text)
		all = append(all, one)
	}
	return all
}

func (i *incident) do(tool, key string, args any, effect dedup.Effect[string]) (dedup.Result[string], error) {
	return dedup.Do(i.t.Context(), i.d, dedup.Call{Scope: "acme", Tool: tool, Key: key, Args: args}, effect)
}

func fine(context.Context, pgx.Tx) (string, error) { return "done", nil }

// From a line of the log, a metric or a row of an import to the record: the commands of that
// section of the runbook, as they stand there.
func TestRunbookFindsTheRecord(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	imported, err := dedup.KeyFromIntent("import", "m", "17")
	require.NoError(t, err)
	called, err := dedup.KeyFromToolCall("conversation 17", 4, "call_0")
	require.NoError(t, err)
	for _, call := range [][2]string{{"refund", "order-117"}, {"refund", "order-118"}, {"import_row", imported}, {"add_note", called}} {
		_, err := i.do(call[0], call[1], nil, fine)
		require.NoError(t, err)
	}

	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n### From a log line, a metric or an import to the record\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n#")
	binary, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(binary, filepath.Join(bin, "dedup")))

	var wrote []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", block[1])
		cmd.Env = append(os.Environ(), asProgram+"=1", "DATABASE_URL="+i.db.URL, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		require.NoError(t, err, block[1])
		wrote = append(wrote, string(out))
	}
	require.Len(t, wrote, 3)
	require.Regexp(t, `^acme refund order-117\n  state         done\n[^#]+$`, wrote[0])
	require.NotContains(t, wrote[0], "order-118")
	require.Regexp(t, `^acme refund\nacme refund order-118\n(?s:.+)\nacme refund order-117\n`, wrote[1])
	require.Regexp(t, "^acme import_row "+imported+"\n  state         done\n(?s:.+)\nacme add_note "+called+"\n  state         done\n", wrote[2])
}

// An effect committed its transaction itself.
func TestIncidentBrokenRecord(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	for range 2 {
		_, err := i.do("refund", "order-7", nil, commits)
		require.ErrorIs(t, err, dedup.ErrBroken)
	}
	i.sweeps()

	found := i.operator(1, "attention")
	require.Len(t, found, 1)
	require.Equal(t, "broken order-7", found[0].Kind+" "+found[0].Key)
	require.Contains(t, found[0].Do, "dedup reset --reason … acme refund order-7")
	shown := i.operator(0, "show", "acme", "refund", "order-7")
	require.Equal(t, "broken", shown[0].State)
	require.EqualValues(t, 2, i.operator(0, "stats", "--by", "outcome")[0].Calls)

	i.operator(1, "reset", "acme", "refund", "order-7", "--created-at", "2020-01-01T00:00:00Z", "--reason", "the wrong one")
	i.operator(0, "reset", "acme", "refund", "order-7", "--created-at", shown[0].CreatedAt, "--reason", "INC-1: completed by hand", "--actor", "kim")
	result, err := i.do("refund", "order-7", nil, fine)
	require.NoError(t, err)
	require.False(t, result.Replayed)
	require.Empty(t, i.operator(0, "attention"))
	audit := i.operator(0, "audit")
	require.Equal(t, []string{"reset kim INC-1: completed by hand", "broken"}, []string{audit[0].Action + " " + audit[0].Actor + " " + audit[0].Reason, audit[1].Action})

	// Another one happened, and is given its result.
	_, err = i.do("refund", "order-8", nil, commits)
	require.ErrorIs(t, err, dedup.ErrBroken)
	created := i.operator(0, "show", "acme", "refund", "order-8")[0].CreatedAt
	resolve := []string{"resolve", "acme", "refund", "order-8", "--reason", "INC-2: completed by hand", "--actor", "kim"}
	i.operator(2, append(resolve, "--never")...)
	i.operator(2, append(resolve, "--happened", `"done"`)...)
	i.operator(2, append(resolve, "--happened", `"done`, "--created-at", created)...)
	i.operator(1, append(resolve, "--happened", `"done"`, "--created-at", "2020-01-01T00:00:00Z")...)
	require.Len(t, i.operator(1, "attention"), 1)
	i.operator(0, append(resolve, "--happened", `"done"`, "--created-at", created)...)
	require.Empty(t, i.operator(0, "attention"))
	result, err = i.do("refund", "order-8", nil, commits)
	require.NoError(t, err)
	require.Equal(t, "done", result.Value)
	require.Equal(t, "happened kim", i.operator(0, "audit")[0].Action+" "+i.operator(0, "audit")[0].Actor)
}

// Two callers have used one key for two intents.
func TestIncidentKeyReused(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	_, err := i.do("refund", "order-7", map[string]int{"cents": 100}, fine)
	require.NoError(t, err)
	for range 3 {
		_, err := i.do("refund", "order-7", map[string]int{"cents": 200}, fine)
		require.ErrorIs(t, err, dedup.ErrKeyReused)
	}
	i.sweeps()

	counted := map[string]int64{}
	for _, of := range i.operator(0, "stats", "--by", "outcome") {
		counted[of.Tool+" "+of.Outcome] = of.Calls
	}
	require.Equal(t, map[string]int64{"refund executed": 1, "refund key_reused": 3}, counted)
	shown := i.operator(0, "show", "acme", "refund", "order-7")
	require.Equal(t, "done", shown[0].State)
	first, err := dedup.FingerprintOf(map[string]int{"cents": 100})
	require.NoError(t, err)
	require.Equal(t, first.String(), shown[0].Fingerprint, "the first call's arguments are the record's")
	require.Empty(t, i.operator(0, "attention"), "nothing is wrong in the database: the callers have to mint keys")
	_, err = i.do("refund", dedup.NewKey(), map[string]int{"cents": 200}, fine)
	require.NoError(t, err)
}

// No Sweeper runs any more.
func TestIncidentSweepStandsStill(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	for n := range 3 {
		_, err := i.do("refund", fmt.Sprint("order-", n), nil, fine)
		require.NoError(t, err)
	}
	_, err := i.pool.Exec(t.Context(), `UPDATE tool_dedup SET created_at = now() - interval '3 days', expires_at = now() - interval '2 days'`)
	require.NoError(t, err)

	found := i.operator(1, "attention")
	require.Len(t, found, 1)
	require.Equal(t, "sweep", found[0].Kind)
	require.Contains(t, found[0].Do, "Sweeper")
	cmd, out, _ := program(t, "doctor", "--database-url", i.db.URL)
	_ = cmd.Run()
	require.Contains(t, out.String(), "sweep_behind")

	i.sweeps() // the Sweeper runs again
	require.Empty(t, i.operator(0, "attention"))
	require.Equal(t, "expired", i.operator(0, "show", "acme", "refund", "order-1")[0].State)
}

// A client calls one tool again and again, while its first call runs.
func TestIncidentStorm(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	_, err := i.do("calm", "k", nil, fine)
	require.NoError(t, err)
	inside, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	call := func() {
		_, err := i.do("refund", "order-7", nil, func(context.Context, pgx.Tx) (string, error) {
			close(inside)
			<-release
			return "done", nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	all.Go(call)
	<-inside
	for range 19 {
		all.Go(call)
	}

	found := i.operator(1, "attention", "--older-than", "0s")
	require.Len(t, found, 1)
	require.Equal(t, "in_flight", found[0].Kind)
	shown := i.operator(0, "show", "acme", "refund", "order-7")
	require.Equal(t, "in_flight", shown[0].State)
	require.Equal(t, found[0].PID, shown[0].Sessions[0].PID, "whose session it is")
	close(release)
	all.Wait()
	i.sweeps()

	require.Empty(t, i.operator(0, "attention", "--older-than", "0s"))
	for _, of := range i.operator(0, "stats") {
		switch of.Tool {
		case "refund":
			require.Equal(t, []int64{20, 19}, []int64{of.Calls, of.Duplicates})
			require.InDelta(t, 0.95, of.Rate, 1e-9)
		case "calm":
			require.Zero(t, of.Rate)
		default:
			t.Errorf("unknown tool %q", of.Tool)
		}
	}
}

type refund struct {
	Order string `json:"order"`
}

type refunded struct {
	ID string `json:"id"`
}

// The answer of a provider without keys and look-up was lost.
func TestIncidentParkedPayment(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	tools, err := external.New(i.d, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tools.Close(context.WithoutCancel(t.Context())) })
	pay, err := external.Add(tools, external.Tool[refund, refunded]{
		Name: "refund",
		Perform: func(context.Context, external.Attempt, refund) (refunded, error) {
			return refunded{}, errors.New("EOF")
		},
	})
	require.NoError(t, err)
	call := dedup.Call{Scope: "acme", Key: "order-7"}
	_, err = pay.Do(t.Context(), call, refund{"order-7"})
	require.ErrorAs(t, err, new(*external.ParkedError))

	found := i.operator(1, "attention")
	require.Len(t, found, 1)
	require.Equal(t, "parked order-7", found[0].Kind+" "+found[0].Key)
	parked := i.operator(0, "parked")
	require.Len(t, parked, 1)
	require.Contains(t, found[0].Do, fmt.Sprint("--fence ", parked[0].Fence))
	i.operator(1, "resolve", "acme", "refund", "order-7", "--fence", "1", "--never", "--reason", "an old alert")
	i.operator(0, "resolve", "acme", "refund", "order-7", "--fence", fmt.Sprint(parked[0].Fence),
		"--happened", `{"id":"re_1"}`, "--reason", "INC-2: in the dashboard", "--actor", "kim")

	result, err := pay.Do(t.Context(), call, refund{"order-7"})
	require.NoError(t, err)
	require.Equal(t, "re_1", result.Value.ID)
	require.Empty(t, i.operator(0, "attention"))
	require.Empty(t, i.operator(0, "parked"))
	require.Equal(t, "kim INC-2: in the dashboard", i.operator(0, "audit")[0].Actor+" "+i.operator(0, "audit")[0].Reason)
	require.WithinDuration(t, time.Now(), result.CreatedAt, time.Hour)
}
