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
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// bundle is a worker with its own ledger.
type bundle struct {
	pool   *pgxpool.Pool
	next   func() *lab.HTTPMishap // the fault of the next delivery
	client worker.Client
	end    func() error // ends the worker's input and waits for its end
}

func setup(t *testing.T, way worker.Way, mode worker.Mode) *bundle {
	t.Helper()
	rec, err := recording.Small()
	require.NoError(t, err)
	db := pgtest.New(t)
	pool := db.Pool(t)
	require.NoError(t, ledger.Create(t.Context(), pool, rec))
	b := serve(t, worker.Task{DatabaseURL: db.URL, Name: "worker-test", Mode: mode, Way: way, Tools: ledger.Tools(rec)})
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

// entries are the ledger's entries of a call.
func (b *bundle) entries(t *testing.T, d worker.Delivery) []int64 {
	t.Helper()
	entries, err := ledger.Entries(t.Context(), b.pool, d.Session)
	require.NoError(t, err)
	return entries[d.Ref]
}

// delivery is a call of the small recording: a write that succeeds at 5, a refused write at 2, a
// read at 0.
func delivery(t *testing.T, seq int) worker.Delivery {
	t.Helper()
	rec, err := recording.Small()
	require.NoError(t, err)
	call := &rec.Sessions[0].Calls[seq]
	return worker.Delivery{
		Session: call.Session, Turn: call.Turn, ToolCallID: call.ToolCallID, Scope: "airline/demo",
		Domain: call.Domain, Tool: call.Tool, Args: call.Arguments, Ref: ledger.Ref(call),
	}
}

const refusal = "Error: not enough seats on flight QX202"

func TestDedup(t *testing.T) {
	t.Parallel()
	for _, way := range worker.Ways {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			b := setup(t, way, worker.Dedup)
			write := delivery(t, 5)
			first, second := b.deliver(t, write), b.deliver(t, write)
			require.Contains(t, first.Text, "Certificate certificate_3221322 added")
			require.False(t, first.Replayed)
			require.Equal(t, worker.Answer{Text: first.Text, Entry: first.Entry, Replayed: true}, second)
			require.Equal(t, []int64{first.Entry}, b.entries(t, write))

			refused := delivery(t, 2)
			require.Equal(t, worker.Answer{Text: refusal, Refused: true}, b.deliver(t, refused))
			require.Equal(t, worker.Answer{Text: refusal, Refused: true, Replayed: true}, b.deliver(t, refused))
			require.Empty(t, b.entries(t, refused))

			reused := write
			reused.Args = json.RawMessage(`{"user_id":"ines_marwick_204","amount":60}`)
			require.NotEmpty(t, b.deliver(t, reused).Error)

			stranger := write
			stranger.Scope, stranger.Args = "airline/other", reused.Args
			require.NotEqual(t, first.Entry, b.deliver(t, stranger).Entry, "another tenant's key is another key")
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
			write := delivery(t, 5)
			first, second := b.deliver(t, write), b.deliver(t, write)
			require.Equal(t, first.Text, second.Text)
			require.Equal(t, []int64{first.Entry, second.Entry}, b.entries(t, write))
			require.Equal(t, worker.Answer{Text: refusal, Refused: true}, b.deliver(t, delivery(t, 2)))
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
			read := delivery(t, 0)
			answer := b.deliver(t, read)
			require.Contains(t, answer.Text, `"first_name": "Ines"`, "the recorded text as it is")
			require.Equal(t, answer, b.deliver(t, read))
			require.Empty(t, b.entries(t, read))
			read.Ref = "another"
			require.NotEmpty(t, b.deliver(t, read).Error)
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
		"NoURL":       {`{"database_url":"postgres://:x:y","mode":"dedup","way":"registry","tools":{"airline":[]}}`, "reading the database URL"},
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
