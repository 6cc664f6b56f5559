package airline_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/airline"
	"github.com/tooldedup/dedup/cmd/dedup/internal/recording"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world"
	"github.com/tooldedup/dedup/cmd/dedup/internal/world/kit"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Ids of the small recording.
const (
	ines  = "ines_marwick_204" // gift card of 400, credit card, certificate of 150
	tobin = "tobin_easterly_318"

	inesGift, inesCredit, inesCertificate = "gift_card_7001", "credit_card_7002", "certificate_7003"
)

// bundle is a world of one test, loaded with the small recording.
type bundle struct {
	pool *pgxpool.Pool
}

func setup(t *testing.T) *bundle {
	t.Helper()
	rec, err := recording.Small()
	require.NoError(t, err)
	pool := pgtest.NewEmpty(t).Pool(t)
	require.NoError(t, world.Create(t.Context(), pool))
	require.NoError(t, world.Load(t.Context(), pool, rec))
	return &bundle{pool: pool}
}

// call runs a tool in a transaction of its own.
func call[In, Out any](ctx context.Context, b *bundle, fn kit.Func[In, Out], in In) (out Out, err error) {
	err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		out, err = fn(ctx, tx, in)
		return err
	})
	return out, err
}

// refused requires that a tool refuses with a message and commits nothing,
// even where the caller commits all the same.
func refused[In, Out any](t *testing.T, b *bundle, fn kit.Func[In, Out], in In, message string) {
	t.Helper()
	before := b.changed(t)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = fn(t.Context(), tx, in)
	require.NoError(t, tx.Commit(t.Context()))
	var refusal *kit.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, message, refusal.Message)
	require.Empty(t, world.DiffState(before, b.changed(t)))
}

func (b *bundle) changed(t *testing.T) recording.State {
	t.Helper()
	state, err := world.Changed(t.Context(), b.pool, airline.Domain)
	require.NoError(t, err)
	return state
}

func (b *bundle) user(t *testing.T, id string) airline.User {
	t.Helper()
	text, err := call(t.Context(), b, airline.UserDetails, airline.UserDetailsIn{UserID: id})
	require.NoError(t, err)
	var user airline.User
	require.NoError(t, json.Unmarshal(text, &user))
	return user
}

// effects is the length of the audit log.
func (b *bundle) effects(t *testing.T) int {
	t.Helper()
	var count int
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM effects`).Scan(&count))
	return count
}

// together runs all at once and requires that none fails.
func together(t *testing.T, all ...func() error) {
	t.Helper()
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, one := range all {
		group.Go(func() { errs[i] = one() })
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
}
