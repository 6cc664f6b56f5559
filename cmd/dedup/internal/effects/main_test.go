package effects_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/effects"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// outcome is how the program ended.
type outcome struct {
	code        int
	out, errOut string
}

// run runs dedup.
func run(ctx context.Context, args ...string) outcome {
	var out, errOut bytes.Buffer
	code := cli.Run(ctx, args, cli.Streams{Out: &out, Err: &errOut}, effects.ParkedCommand(), effects.ResolveCommand())
	return outcome{code, out.String(), errOut.String()}
}

// operation is a line of --json.
type operation struct {
	Scope       string    `json:"scope"`
	Tool        string    `json:"tool"`
	Key         string    `json:"key"`
	State       string    `json:"state"`
	Fence       int64     `json:"fence"`
	ProviderKey string    `json:"provider_key"`
	KeyHash     string    `json:"key_hash"`
	Since       time.Time `json:"since"`
	CreatedAt   time.Time `json:"created_at"`
	SentAt      time.Time `json:"sent_at"`
	Ref         string    `json:"ref"`
	Twice       string    `json:"twice"`
	Note        string    `json:"note"`
	Verdict     string    `json:"verdict"`
	Cursor      string    `json:"cursor"`
}

// bundle is a database, and a process with a tool that takes no key and cannot be looked up.
type bundle struct {
	db    *pgtest.DB
	pool  *pgxpool.Pool
	tools *external.Tools
	pay   *external.Handle[payment, receipt]
	// keys are those of the attempts. The first attempt of every call loses its answer.
	keys chan string
}

type payment struct {
	Secret string `json:"secret"`
}

type receipt struct {
	ID string `json:"id"`
}

var errLost = errors.New("the answer is lost")

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{db: pgtest.New(t), keys: make(chan string, 100)}
	b.pool = b.db.Pool(t)
	d, err := dedup.New(b.pool, nil)
	require.NoError(t, err)
	b.tools, err = external.New(d, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.tools.Close(context.WithoutCancel(t.Context())) })
	tried := map[string]bool{}
	b.pay, err = external.Add(b.tools, external.Tool[payment, receipt]{
		Name: "pay",
		Perform: func(_ context.Context, a external.Attempt, _ payment) (receipt, error) {
			b.keys <- a.Key
			if !tried[a.Key] {
				tried[a.Key] = true
				return receipt{}, errLost
			}
			return receipt{"again"}, nil
		},
		Ref: func(r receipt) string { return r.ID },
	})
	require.NoError(t, err)
	return b
}

// park makes a call whose answer is lost.
func (b *bundle) park(t *testing.T, key string) operation {
	t.Helper()
	_, err := b.pay.Do(t.Context(), dedup.Call{Scope: "acme", Key: key}, payment{"hunter2"})
	require.ErrorAs(t, err, new(*external.ParkedError))
	for _, op := range b.parked(t) {
		if op.Key == key {
			return op
		}
	}
	require.Fail(t, "it is not listed", key)
	return operation{}
}

// dedup runs the program on the test's database.
func (b *bundle) dedup(t *testing.T, args ...string) outcome {
	t.Helper()
	return run(t.Context(), append(args, "--database-url", b.db.URL)...)
}

// parked runs `dedup parked --json`.
func (b *bundle) parked(t *testing.T, args ...string) []operation {
	t.Helper()
	got := b.dedup(t, append([]string{"parked", "--json"}, args...)...)
	require.Equal(t, exit.OK, got.code, got.errOut)
	return operations(t, got.out)
}

func operations(t *testing.T, out string) []operation {
	t.Helper()
	require.NotContains(t, out, "hunter2")
	ops := []operation{}
	for line := range strings.Lines(out) {
		var op operation
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.DisallowUnknownFields()
		require.NoError(t, decoder.Decode(&op), line)
		ops = append(ops, op)
	}
	return ops
}

// resolve runs `dedup resolve` for an operation as it was listed.
func (b *bundle) resolve(t *testing.T, op operation, args ...string) outcome {
	t.Helper()
	return b.dedup(t, append([]string{"resolve", op.Scope, op.Tool, op.Key, "--fence", fmt.Sprint(op.Fence), "--reason", "seen in the books"}, args...)...)
}

func (b *bundle) exec(t *testing.T, sql string) {
	t.Helper()
	_, err := b.pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}
