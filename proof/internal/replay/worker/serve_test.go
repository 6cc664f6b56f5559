package worker_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// bundle is a worker at work in a world of its own.
type bundle struct {
	pool   *pgxpool.Pool
	next   func() *lab.HTTPMishap // what befalls the next delivery
	client worker.Client
	end    func() error // ends the worker's input and waits for its end
}

func setup(t *testing.T, way worker.Way, mode worker.Mode) *bundle {
	t.Helper()
	rec, err := recording.Small()
	require.NoError(t, err)
	db := pgtest.New(t)
	pool := db.Pool(t)
	require.NoError(t, world.Create(t.Context(), pool, rec))
	b := serve(t, worker.Task{DatabaseURL: db.URL, Name: "worker-test", Mode: mode, Way: way})
	b.pool = pool
	return b
}

func serve(t *testing.T, task worker.Task) *bundle {
	t.Helper()
	inReader, inWriter := io.Pipe()
	outReader, outWriter := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := lab.Serve(t.Context(), inReader, outWriter, worker.Open)
		_ = inReader.Close()
		_ = outWriter.Close()
		served <- err
	}()
	require.NoError(t, json.NewEncoder(inWriter).Encode(task))
	var address string
	require.NoError(t, json.NewDecoder(outReader).Decode(&address))
	b := &bundle{next: func() *lab.HTTPMishap { return nil }}
	front := &lab.HTTPProxy{
		To:   func(context.Context) ([]string, error) { return []string{address}, nil },
		Next: func() *lab.HTTPMishap { return b.next() },
	}
	front.Start()
	b.client = task.Way.Dial(front.URL())
	b.end = func() error {
		b.client.Close()
		front.Close()
		_ = inWriter.Close()
		return <-served
	}
	return b
}

func (b *bundle) deliver(t *testing.T, d worker.Delivery) worker.Answer {
	t.Helper()
	answer, err := b.client.Deliver(t.Context(), d)
	if err != nil {
		return worker.Answer{Error: err.Error()}
	}
	return answer
}

func (b *bundle) effects(t *testing.T, ref string) int {
	t.Helper()
	counts, err := world.Effects(t.Context(), b.pool)
	require.NoError(t, err)
	return counts[ref]
}

func certificate() worker.Delivery {
	return worker.Delivery{
		Session: "s", Turn: 4, ToolCallID: "call_1", Scope: "airline/demo", Domain: "airline",
		Tool: "send_certificate", Args: json.RawMessage(`{"user_id":"ines_marwick_204","amount":50}`),
		Ref: "s/4/call_1",
	}
}

func TestDedup(t *testing.T) {
	t.Parallel()
	for _, way := range worker.Ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			b := setup(t, way, worker.Dedup)
			first, second := b.deliver(t, certificate()), b.deliver(t, certificate())
			require.Contains(t, first.Text, "Certificate certificate_3221322 added")
			require.False(t, first.Replayed)
			require.Equal(t, worker.Answer{Text: first.Text, Replayed: true}, second)
			require.Equal(t, 1, b.effects(t, "s/4/call_1"))

			refused := certificate()
			refused.Turn, refused.Args = 6, json.RawMessage(`{"user_id":"nobody","amount":50}`)
			require.Equal(t, worker.Answer{Text: "Error: user not found"}, b.deliver(t, refused))
			require.Equal(t, worker.Answer{Text: "Error: user not found", Replayed: true}, b.deliver(t, refused))

			reused := certificate()
			reused.Args = json.RawMessage(`{"user_id":"ines_marwick_204","amount":60}`)
			require.Contains(t, b.deliver(t, reused).Error, "amount")

			stranger := certificate()
			stranger.Scope, stranger.Args = "airline/other", reused.Args
			require.Contains(t, b.deliver(t, stranger).Text, "certificate_3221323", "another tenant's key is another key")
			require.NoError(t, b.end())
		})
	}
}

func TestNaive(t *testing.T) {
	t.Parallel()
	for _, way := range worker.Ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			b := setup(t, way, worker.Naive)
			first, second := b.deliver(t, certificate()), b.deliver(t, certificate())
			require.Contains(t, first.Text, "certificate_3221322")
			require.Contains(t, second.Text, "certificate_3221323")
			require.Equal(t, 2, b.effects(t, "s/4/call_1"))

			refused := certificate()
			refused.Args = json.RawMessage(`{"user_id":"nobody","amount":50}`)
			require.Equal(t, worker.Answer{Text: "Error: user not found"}, b.deliver(t, refused))
			require.NoError(t, b.end())
		})
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	for _, way := range worker.Ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			b := setup(t, way, worker.Dedup)
			read := worker.Delivery{
				Session: "s", ToolCallID: "call_1", Scope: "retail/demo", Domain: "retail",
				Tool: "find_user_id_by_email", Args: json.RawMessage(`{"email":"mirela.fenn@post.example"}`),
			}
			require.Equal(t, worker.Answer{Text: "mirela_fenn_512"}, b.deliver(t, read))
			read.Args = json.RawMessage(`{"email":"nobody@post.example"}`)
			require.Equal(t, worker.Answer{Text: "Error: user not found"}, b.deliver(t, read))
			read.Args = json.RawMessage(`{"email":"", "phone":""}`)
			require.Contains(t, b.deliver(t, read).Error, "phone")
			read.Tool = "no_such_tool"
			require.NotEmpty(t, b.deliver(t, read).Error)
			require.NoError(t, b.end())
		})
	}
}

func TestServeBadInput(t *testing.T) {
	t.Parallel()
	const hello = `{"database_url":"postgres://127.0.0.1:1/d","mode":"dedup","way":"registry"}` + "\n"
	for name, tt := range map[string]struct{ in, says string }{
		"Empty":       {"", "reading the first line"},
		"NoJSON":      {"hello\n", "reading the first line"},
		"NoURL":       {`{"database_url":"postgres://:x:y","mode":"dedup","way":"registry"}`, "reading the database URL"},
		"UnknownMode": {`{"database_url":"postgres://127.0.0.1:1/d","mode":"other","way":"registry"}`, `unknown mode "other"`},
		"UnknownWay":  {`{"database_url":"postgres://127.0.0.1:1/d","mode":"dedup","way":"pigeon"}`, `unknown way "pigeon"`},
		"NoWay":       {`{"database_url":"postgres://127.0.0.1:1/d","mode":"dedup"}`, `unknown way ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, lab.Serve(t.Context(), strings.NewReader(tt.in), io.Discard, worker.Open), tt.says)
		})
	}
	require.NoError(t, lab.Serve(t.Context(), strings.NewReader(hello), io.Discard, worker.Open))
}
