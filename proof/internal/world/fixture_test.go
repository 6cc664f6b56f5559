package world_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// bundle is a database with the tables of a world.
type bundle struct {
	Pool   *pgxpool.Pool
	domain string
}

// newBundle makes a world that holds the small recording.
func newBundle(t *testing.T, domain string) *bundle {
	t.Helper()
	rec, err := recording.Small()
	require.NoError(t, err)
	pool := pgtest.NewEmpty(t).Pool(t)
	require.NoError(t, world.Create(t.Context(), pool, rec))
	return &bundle{Pool: pool, domain: domain}
}

// Changed are the domain's rows that differ from the recording.
func (w *bundle) Changed(t *testing.T) recording.State {
	t.Helper()
	state, err := world.Changed(t.Context(), w.Pool, w.domain)
	require.NoError(t, err)
	return state
}

// Effects is the length of the audit log.
func (w *bundle) Effects(t *testing.T) int {
	t.Helper()
	var count int
	require.NoError(t, w.Pool.QueryRow(t.Context(), `SELECT count(*) FROM effects`).Scan(&count))
	return count
}

// callTool runs a tool in a transaction of its own.
func callTool[Out any](ctx context.Context, w *bundle, tool string, in any) (out Out, err error) {
	var text json.RawMessage
	err = pgx.BeginFunc(ctx, w.Pool, func(tx pgx.Tx) (err error) {
		text, err = w.run(ctx, tx, tool, in)
		return err
	})
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

func (w *bundle) run(ctx context.Context, tx pgx.Tx, tool string, in any) (json.RawMessage, error) {
	args, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	tools := world.Tools()[w.domain]
	return tools[slices.IndexFunc(tools, func(t kit.Tool) bool { return t.Name == tool })].Run(ctx, tx, args)
}

// requireRefused requires that a tool refuses with a message and commits nothing, even
// where the caller commits all the same.
func requireRefused(t *testing.T, w *bundle, tool string, in any, message string) {
	t.Helper()
	before := w.Changed(t)
	tx, err := w.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = w.run(t.Context(), tx, tool, in)
	require.NoError(t, tx.Commit(t.Context()))
	var refusal *kit.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, message, refusal.Message)
	require.Empty(t, world.DiffState(before, w.Changed(t)))
}

// requireTogether runs all at once and requires that none fails.
func requireTogether(t *testing.T, all ...func() error) {
	t.Helper()
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, one := range all {
		group.Go(func() { errs[i] = one() })
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
}
