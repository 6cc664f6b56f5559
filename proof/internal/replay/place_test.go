package replay

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// fakeWorker is a worker without a database. Its tools do as they are named.
func fakeWorker() {
	_ = lab.Serve(context.Background(), os.Stdin, os.Stdout, func(_ context.Context, task worker.Task) (http.Handler, func() error, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fakeTool(w, r, task) }), func() error { return nil }, nil
	})
}

// fakeTool answers with the reference of the call, or does as its tool is named.
func fakeTool(w http.ResponseWriter, r *http.Request, task worker.Task) {
	var d worker.Delivery
	_ = json.NewDecoder(r.Body).Decode(&d)
	answer := worker.Answer{Text: d.Ref}
	switch d.Tool {
	case "task":
		text, _ := json.Marshal(task)
		answer.Text = string(text)
	case "die":
		os.Exit(1)
	case "hang":
		<-r.Context().Done()
	case "fail":
		answer.Error = "it failed"
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func fakeTask(databaseURL string) worker.Task {
	return worker.Task{DatabaseURL: databaseURL, Name: "fake", Mode: worker.Naive, Way: worker.Registry}
}

func start(t *testing.T) *place {
	t.Helper()
	p, err := newPlace(process.Command{Args: []string{"fake-worker"}}, fakeTask("postgres://u:secret@127.0.0.1:1/d"))
	require.NoError(t, err)
	t.Cleanup(p.close)
	return p
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	p := start(t)
	answer, err := p.deliver(t.Context(), worker.Delivery{Ref: "r"})
	require.NoError(t, err)
	require.Equal(t, worker.Answer{Text: "r"}, answer)

	answer, err = p.deliver(t.Context(), worker.Delivery{Tool: "task"})
	require.NoError(t, err)
	var task worker.Task
	require.NoError(t, json.Unmarshal([]byte(answer.Text), &task))
	require.Equal(t, fakeTask(p.proxy.URL()), task)
	require.Regexp(t, "/d[?]", p.proxy.URL())

	_, err = p.deliver(t.Context(), worker.Delivery{Tool: "fail"})
	require.ErrorContains(t, err, "it failed")
	require.Equal(t, 1, p.seat.Started())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = p.deliver(ctx, worker.Delivery{Tool: "hang"})
	require.ErrorIs(t, err, context.Canceled)
}

func TestProcessIsReplaced(t *testing.T) {
	t.Parallel()
	p := start(t)
	require.True(t, p.seat.Kill())
	require.False(t, p.seat.Kill(), "there is none")
	answer, err := p.deliver(t.Context(), worker.Delivery{Ref: "again"})
	require.NoError(t, err)
	require.Equal(t, "again", answer.Text)
	require.Equal(t, 2, p.seat.Started())
}

// A process that ends by itself is a defect, and no later process hides it.
func TestProcessEnds(t *testing.T) {
	t.Parallel()
	p := start(t)
	server, err := p.seat.Server()
	require.NoError(t, err)
	_, err = p.deliver(t.Context(), worker.Delivery{Tool: "die"})
	require.Error(t, err)
	<-server.Done()
	_, err = p.deliver(t.Context(), worker.Delivery{})
	require.ErrorAs(t, err, &lab.Hopeless{})
	require.ErrorContains(t, err, "ended by itself")
}

func TestDeliverOverACutConnection(t *testing.T) {
	t.Parallel()
	p := start(t)
	f := &armedFault{fault: fault{cutConnection, answerLost}}
	p.meet(f.cutNext)
	_, err := p.deliver(t.Context(), worker.Delivery{Ref: "r"})
	require.Error(t, err)
	require.EqualValues(t, 1, f.applied.Load())
	answer, err := p.deliver(t.Context(), worker.Delivery{Ref: "r"})
	require.NoError(t, err, "it befalls one delivery")
	require.Equal(t, "r", answer.Text)
	require.Equal(t, 1, p.seat.Started())
}

func TestPlaceFails(t *testing.T) {
	t.Parallel()
	_, err := newPlace(process.Command{Program: "/no/such/program"}, fakeTask("postgres://127.0.0.1:1/d"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = newPlace(process.Command{Program: "/no/such/program"}, fakeTask("mysql://"))
	require.ErrorContains(t, err, "postgres://")
}
