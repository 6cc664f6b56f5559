package worker_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
	"github.com/tooldedup/dedup/proof/internal/world"
	"github.com/tooldedup/dedup/proof/internal/world/effect"
)

// bundle is a worker at work in a world of its own.
type bundle struct {
	pool   *pgxpool.Pool
	in     *json.Encoder
	out    *json.Decoder
	client worker.Client // nil by way of the registry
	wire   *wire.Transport
	end    func() error // ends the worker's input and waits for its end
}

func setup(t *testing.T, way worker.Way, mode worker.Mode) *bundle {
	t.Helper()
	rec, err := recording.Small()
	require.NoError(t, err)
	db := pgtest.New(t)
	pool := db.Pool(t)
	require.NoError(t, world.Create(t.Context(), pool))
	require.NoError(t, world.Load(t.Context(), pool, rec))
	b := serve(t, worker.Hello{DatabaseURL: db.URL, Name: "worker-test", Setup: worker.Setup{Mode: mode, Way: way}})
	b.pool = pool
	return b
}

func serve(t *testing.T, hello worker.Hello) *bundle {
	t.Helper()
	inReader, inWriter := io.Pipe()
	outReader, outWriter := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := worker.Serve(t.Context(), inReader, outWriter)
		_ = inReader.Close()
		_ = outWriter.Close()
		served <- err
	}()
	b := &bundle{in: json.NewEncoder(inWriter), out: json.NewDecoder(outReader)}
	b.end = func() error {
		if b.client != nil {
			b.client.Close()
		}
		_ = inWriter.Close()
		return <-served
	}
	require.NoError(t, b.in.Encode(hello))
	if hello.Way.Networked() {
		b.dial(t, hello.Way)
	}
	return b
}

// dial makes a client of the address that the worker announces.
func (b *bundle) dial(t *testing.T, way worker.Way) {
	t.Helper()
	var first worker.Answer
	require.NoError(t, b.out.Decode(&first))
	b.wire = wire.New()
	t.Cleanup(b.wire.Close)
	var err error
	b.client, err = way.Dial(first.Address, b.wire)
	require.NoError(t, err)
}

func (b *bundle) deliver(t *testing.T, d worker.Delivery) worker.Answer {
	t.Helper()
	var answer worker.Answer
	if b.client == nil {
		require.NoError(t, b.in.Encode(d))
		require.NoError(t, b.out.Decode(&answer))
	} else {
		var err error
		if answer, err = b.client.Deliver(t.Context(), d); err != nil {
			return worker.Answer{ID: d.ID, Error: err.Error()}
		}
	}
	require.Equal(t, d.ID, answer.ID)
	return answer
}

func (b *bundle) effects(t *testing.T, ref string) int {
	t.Helper()
	counts, err := effect.Counts(t.Context(), b.pool)
	require.NoError(t, err)
	return counts[ref]
}

func certificate(id int) worker.Delivery {
	return worker.Delivery{
		ID: id, Session: "s", Turn: 4, ToolCallID: "call_1", Scope: "airline/demo", Domain: "airline",
		Tool: "send_certificate", Args: json.RawMessage(`{"user_id":"ines_marwick_204","amount":50}`),
		Ref: "s/4/call_1",
	}
}

var ways = []worker.Way{worker.Registry, worker.HTTP, worker.MCP}

func TestDedup(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			b := setup(t, way, worker.Dedup)
			first, second := b.deliver(t, certificate(1)), b.deliver(t, certificate(2))
			require.Contains(t, first.Text, "Certificate certificate_3221322 added")
			require.False(t, first.Replayed)
			require.Equal(t, worker.Answer{ID: 2, Text: first.Text, Replayed: true}, second)
			require.Equal(t, 1, b.effects(t, "s/4/call_1"))

			refused := certificate(3)
			refused.Turn, refused.Args = 6, json.RawMessage(`{"user_id":"nobody","amount":50}`)
			require.Equal(t, worker.Answer{ID: 3, Text: "Error: user not found"}, b.deliver(t, refused))
			refused.ID = 4
			require.Equal(t, worker.Answer{ID: 4, Text: "Error: user not found", Replayed: true}, b.deliver(t, refused))

			reused := certificate(5)
			reused.Args = json.RawMessage(`{"user_id":"ines_marwick_204","amount":60}`)
			require.Contains(t, b.deliver(t, reused).Error, "amount")

			stranger := certificate(6)
			stranger.Scope, stranger.Args = "airline/other", reused.Args
			require.Contains(t, b.deliver(t, stranger).Text, "certificate_3221323", "another tenant's key is another key")
			require.NoError(t, b.end())
		})
	}
}

func TestNaive(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			b := setup(t, way, worker.Naive)
			first, second := b.deliver(t, certificate(1)), b.deliver(t, certificate(2))
			require.Contains(t, first.Text, "certificate_3221322")
			require.Contains(t, second.Text, "certificate_3221323")
			require.Equal(t, 2, b.effects(t, "s/4/call_1"))

			refused := certificate(3)
			refused.Args = json.RawMessage(`{"user_id":"nobody","amount":50}`)
			require.Equal(t, worker.Answer{ID: 3, Text: "Error: user not found"}, b.deliver(t, refused))
			require.NoError(t, b.end())
		})
	}
}

func TestReads(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			b := setup(t, way, worker.Dedup)
			read := worker.Delivery{
				ID: 1, Session: "s", ToolCallID: "call_1", Scope: "retail/demo", Domain: "retail",
				Tool: "find_user_id_by_email", Args: json.RawMessage(`{"email":"mirela.fenn@post.example"}`),
			}
			require.Equal(t, worker.Answer{ID: 1, Text: "mirela_fenn_512"}, b.deliver(t, read))
			read.Args = json.RawMessage(`{"email":"nobody@post.example"}`)
			require.Equal(t, worker.Answer{ID: 1, Text: "Error: user not found"}, b.deliver(t, read))
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
	const network = `{"database_url":"postgres://127.0.0.1:1/d","mode":"dedup","way":"http"}` + "\n"
	for name, tt := range map[string]struct{ in, says string }{
		"Empty":       {"", "reading the first line"},
		"NoJSON":      {"hello\n", "reading the first line"},
		"NoURL":       {`{"database_url":"postgres://:x:y","mode":"dedup","way":"registry"}`, "reading the database URL"},
		"UnknownMode": {`{"database_url":"postgres://127.0.0.1:1/d","mode":"other","way":"registry"}`, `unknown mode "other"`},
		"UnknownWay":  {`{"database_url":"postgres://127.0.0.1:1/d","mode":"dedup","way":"pigeon"}`, `unknown way "pigeon"`},
		"NoWay":       {`{"database_url":"postgres://127.0.0.1:1/d","mode":"dedup"}`, `unknown way ""`},
		"AnotherLine": {network + "{}", "there is another line"},
		"Nonsense":    {network + "nonsense", "waiting for the end of the input: invalid character"},
		"BadDelivery": {hello + "nonsense", "reading a delivery"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorContains(t, worker.Serve(t.Context(), strings.NewReader(tt.in), io.Discard), tt.says)
		})
	}
	require.NoError(t, worker.Serve(t.Context(), strings.NewReader(hello), io.Discard))
	require.NoError(t, worker.Serve(t.Context(), strings.NewReader(network), io.Discard))
}
