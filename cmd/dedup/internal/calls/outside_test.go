package calls_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
)

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

// outside is a database, and a process with a tool that takes no key and cannot be looked up.
type outside struct {
	*bundle
	tools *external.Tools
	pay   *external.Handle[payment, receipt]
	// keys receives the provider key of each attempt. The first attempt of every call loses its
	// answer.
	keys chan string
}

type payment struct {
	Secret string `json:"secret"`
}

type receipt struct {
	ID string `json:"id"`
}

var errLost = errors.New("the answer is lost")

func setupOutside(t *testing.T) *outside {
	t.Helper()
	b := &outside{bundle: setup(t, nil), keys: make(chan string, 100)}
	tried := map[string]bool{}
	b.tools, b.pay = payTools(t, b.d, func(a external.Attempt) (receipt, error) {
		b.keys <- a.Key
		if !tried[a.Key] {
			tried[a.Key] = true
			return receipt{}, errLost
		}
		return receipt{"again"}, nil
	})
	t.Cleanup(func() { _ = b.tools.Close(context.WithoutCancel(t.Context())) })
	return b
}

// payTools is a process with a tool that takes no key and cannot be looked up.
func payTools(t *testing.T, d *dedup.Deduper, perform func(external.Attempt) (receipt, error)) (*external.Tools, *external.Handle[payment, receipt]) {
	t.Helper()
	tools, err := external.New(d, nil)
	require.NoError(t, err)
	pay, err := external.Add(tools, external.Tool[payment, receipt]{
		Name: "pay", Ref: func(r receipt) string { return r.ID },
		Perform: func(_ context.Context, a external.Attempt, _ payment) (receipt, error) { return perform(a) },
	})
	require.NoError(t, err)
	return tools, pay
}

// park makes a call whose answer is lost.
func (b *outside) park(t *testing.T, key string) operation {
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

// parked runs `dedup parked --json`.
func (b *outside) parked(t *testing.T, args ...string) []operation {
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
func (b *outside) resolve(t *testing.T, op operation, args ...string) outcome {
	t.Helper()
	return b.dedup(t, append([]string{"resolve", op.Scope, op.Tool, op.Key, "--fence", fmt.Sprint(op.Fence), "--reason", "seen in the books"}, args...)...)
}
