package browsertest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/dedupweb"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// asking is the header with the visitor's name in tests.
const asking = "X-Asking"

// visitors maps visitors to their rights.
var visitors = map[string]dedupweb.Access{
	"ada":    {Name: "ada", Keys: true, Results: true, Act: true},
	"reader": {Name: "reader", Keys: true},
	"blind":  {Name: "blind"},
	"globex": {Name: "globex", Scopes: []string{"globex"}, Act: true},
}

// console is a console mounted at /console/, and a process that calls tools.
type console struct {
	pool  *pgxpool.Pool
	d     *dedup.Deduper
	tools *external.Tools
	pay   *external.Handle[payment, receipt]
	url   string
}

type payment struct {
	Order int `json:"order"`
}

type receipt struct {
	ID string `json:"id"`
}

func newConsole(t *testing.T) *console {
	t.Helper()
	c := &console{}
	c.pool = pgtest.New(t).Pool(t)
	var err error
	c.d, err = dedup.New(c.pool, &dedup.Options{IdleTimeout: time.Hour})
	require.NoError(t, err)
	c.tools, err = external.New(c.d, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.tools.Close(context.WithoutCancel(t.Context())) })
	c.pay, err = external.Add(c.tools, external.Tool[payment, receipt]{
		Name: "charge_card",
		Perform: func(context.Context, external.Attempt, payment) (receipt, error) {
			return receipt{}, errors.New("reading the answer: connection reset by peer")
		},
	})
	require.NoError(t, err)
	handler, err := dedupweb.New(c.d, dedupweb.Options{Tools: c.tools, Access: func(r *http.Request) dedupweb.Access {
		return visitors[r.Header.Get(asking)]
	}})
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/console/", http.StripPrefix("/console", handler))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c.url = server.URL + "/console/"
	return c
}

// do makes a call.
func (c *console) do(t *testing.T, of call, result any) {
	t.Helper()
	_, err := dedup.Do(t.Context(), c.d, dedup.Call(of), func(context.Context, pgx.Tx) (any, error) {
		if refusal, ok := result.(error); ok {
			return nil, refusal
		}
		return result, nil
	})
	if _, ok := result.(error); !ok {
		require.NoError(t, err)
	}
}

// breaks makes a call whose effect ends its own transaction.
func (c *console) breaks(t *testing.T, of call) {
	t.Helper()
	_, err := dedup.Do(t.Context(), c.d, dedup.Call(of), func(ctx context.Context, tx pgx.Tx) (string, error) {
		_, err := tx.Conn().Exec(ctx, "COMMIT")
		return "", err
	})
	require.ErrorIs(t, err, dedup.ErrBroken)
}

// park makes a call and loses its answer.
func (c *console) park(t *testing.T, of call) {
	t.Helper()
	_, err := c.pay.Do(t.Context(), dedup.Call{Scope: of.Scope, Key: of.Key}, payment{7})
	require.Error(t, err)
	require.Equal(t, external.StateParked, c.operation(t, of).State)
}

// operation reads a call's operation.
func (c *console) operation(t *testing.T, of call) external.Operation {
	t.Helper()
	status, err := c.tools.Status(t.Context(), of.Scope, of.Tool, of.Key)
	require.NoError(t, err)
	return status.Operation
}

// state is the state of a call.
func (c *console) state(t *testing.T, of call) dedup.State {
	t.Helper()
	status, err := c.d.Lookup(t.Context(), of.Scope, of.Tool, of.Key)
	require.NoError(t, err)
	return status.State
}

// hold begins a call and returns when its effect runs. The call ends with the test.
func (c *console) hold(t *testing.T, of call) {
	t.Helper()
	entered, leave, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ctx := context.WithoutCancel(t.Context())
	go func() {
		_, err := dedup.Do(ctx, c.d, dedup.Call(of), func(context.Context, pgx.Tx) (string, error) {
			close(entered)
			<-leave
			return "late", nil
		})
		ended <- err
	}()
	<-entered
	t.Cleanup(func() {
		close(leave)
		require.NoError(t, <-ended)
	})
}
