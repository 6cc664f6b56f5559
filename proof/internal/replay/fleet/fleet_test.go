package fleet_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/replay/fleet"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// TestMain lets the test program be a worker that does what the name of the
// tool says, without a database.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "fake-worker" {
		fakeWorker()
		return
	}
	goleak.VerifyTestMain(m)
}

func fakeWorker() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Scan() // the Hello
	hello := lines.Text()
	if strings.Contains(hello, `"way":"http"`) {
		server := httptest.NewServer(http.HandlerFunc(fakeTool))
		_ = json.NewEncoder(os.Stdout).Encode(worker.Answer{Address: server.Listener.Addr().String()})
	}
	for lines.Scan() {
		var d worker.Delivery
		if json.Unmarshal(lines.Bytes(), &d) != nil {
			return
		}
		answer := worker.Answer{ID: d.ID, Text: d.Ref}
		switch d.Tool {
		case "hello":
			answer.Text = hello
		case "die":
			return
		case "babble":
			_, _ = fmt.Fprintln(os.Stdout, "what?")
			continue
		case "hang":
			continue
		case "fail":
			answer.Error = "it failed"
		case "late":
			_ = json.NewEncoder(os.Stdout).Encode(worker.Answer{ID: d.ID - 1, Text: "of another"})
		}
		_ = json.NewEncoder(os.Stdout).Encode(answer)
	}
}

// fakeTool answers with the reference of the call.
func fakeTool(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/die") {
		os.Exit(1)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r.Header.Get("Call-Ref"))
}

func start(t *testing.T, way worker.Way) *fleet.Fleet {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	f, err := fleet.Start(fleet.Config{
		Command: process.Command{Program: self, Args: []string{"fake-worker"}}, Size: 3,
		DatabaseURLs: []string{"postgres://u:secret@127.0.0.1:1/d", "postgres://u:secret@127.0.0.1:1/e"}, Setup: worker.Setup{Mode: worker.Naive, Way: way},
	})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	f := start(t, worker.Registry)
	answer, err := f.Deliver(t.Context(), 1, worker.Delivery{ID: 7, Ref: "r"})
	require.NoError(t, err)
	require.Equal(t, worker.Answer{ID: 7, Text: "r"}, answer)

	answer, err = f.Deliver(t.Context(), 1, worker.Delivery{ID: 8, Tool: "late", Ref: "mine"})
	require.NoError(t, err)
	require.Equal(t, "mine", answer.Text)

	answer, err = f.Deliver(t.Context(), 1, worker.Delivery{ID: 9, Tool: "hello"})
	require.NoError(t, err)
	var hello worker.Hello
	require.NoError(t, json.Unmarshal([]byte(answer.Text), &hello))
	require.Equal(t, worker.Hello{DatabaseURL: f.Proxy(1).URL(), Name: f.Name(1), Setup: worker.Setup{Mode: worker.Naive, Way: worker.Registry}}, hello)
	require.Regexp(t, "/d[?]", f.Proxy(0).URL(), "the servers are taken in turn")
	require.Regexp(t, "/e[?]", f.Proxy(1).URL())
	require.Regexp(t, "/d[?]", f.Proxy(2).URL())
	require.Equal(t, 3, f.Processes())
}

func TestProcessIsReplaced(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*fleet.Fleet){
		"Killed": func(f *fleet.Fleet) {
			require.True(t, f.Kill(0))
			require.False(t, f.Kill(0), "there is none")
		},
		"Died": func(f *fleet.Fleet) {
			_, err := f.Deliver(t.Context(), 0, worker.Delivery{ID: 1, Tool: "die"})
			require.ErrorIs(t, err, fleet.ErrNoAnswer)
		},
		"Babbled": func(f *fleet.Fleet) {
			_, err := f.Deliver(t.Context(), 0, worker.Delivery{ID: 1, Tool: "babble"})
			require.ErrorIs(t, err, fleet.ErrNoAnswer)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, worker.Registry)
			end(f)
			answer, err := f.Deliver(t.Context(), 0, worker.Delivery{ID: 2, Ref: "again"})
			require.NoError(t, err)
			require.Equal(t, "again", answer.Text)
			require.Equal(t, 4, f.Processes())
		})
	}
}

func TestDeliverByNetwork(t *testing.T) {
	t.Parallel()
	f := start(t, worker.HTTP)
	call := worker.Delivery{ID: 1, Session: "s", ToolCallID: "c", Domain: "d", Tool: "t", Ref: "r"}
	require.Equal(t, "r", delivered(t, f, call).Text)

	cut := wire.NewCut(plan.AnswerLost)
	f.Wire(0).Arm(cut)
	_, err := f.Deliver(t.Context(), 0, call)
	require.ErrorIs(t, err, fleet.ErrNoAnswer)
	require.True(t, cut.Applied())
	require.Equal(t, "r", delivered(t, f, call).Text)
	require.Equal(t, 3, f.Processes())

	require.True(t, f.Kill(0))
	require.Equal(t, "r", delivered(t, f, call).Text, "the next process has another address")
	require.Equal(t, 4, f.Processes())

	call.Tool = "die"
	_, err = f.Deliver(t.Context(), 0, call)
	require.ErrorIs(t, err, fleet.ErrNoAnswer)
	call.Tool = "t"
	for range 3 { // the last of its connections may still be taken, and then no other
		if _, err = f.Deliver(t.Context(), 0, call); err == nil {
			break
		}
	}
	require.NoError(t, err)
	require.Equal(t, 5, f.Processes())
}

func delivered(t *testing.T, f *fleet.Fleet, d worker.Delivery) worker.Answer {
	t.Helper()
	answer, err := f.Deliver(t.Context(), 0, d)
	require.NoError(t, err)
	return answer
}

func TestDeliverFails(t *testing.T) {
	t.Parallel()
	f := start(t, worker.Registry)
	_, err := f.Deliver(t.Context(), 0, worker.Delivery{ID: 1, Tool: "fail"})
	require.ErrorIs(t, err, fleet.ErrNoAnswer)
	require.ErrorContains(t, err, "it failed")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Deliver(ctx, 0, worker.Delivery{ID: 2, Tool: "hang"})
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, fleet.ErrNoAnswer)

	f.Close()
	_, err = f.Deliver(t.Context(), 0, worker.Delivery{ID: 3})
	require.ErrorIs(t, err, fleet.ErrNoAnswer)
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	_, err := fleet.Start(fleet.Config{Command: process.Command{Program: "/no/such/program"}, Size: 1, DatabaseURLs: []string{"postgres://127.0.0.1:1/d"}})
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = fleet.Start(fleet.Config{Command: process.Command{Program: "/no/such/program"}, Size: 1, DatabaseURLs: []string{"mysql://"}})
	require.ErrorContains(t, err, "postgres://")
}
