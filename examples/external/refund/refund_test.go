package refund

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// shop has one order, which was paid.
type shop struct {
	t      *testing.T
	pool   *pgxpool.Pool
	tools  *external.Tools
	refund *external.Handle[Refund, Refunded]
}

func newShop(t *testing.T, tool external.Tool[Refund, Refunded]) *shop {
	t.Helper()
	pool := pgtest.New(t).Pool(t)
	_, err := pool.Exec(t.Context(), `CREATE TABLE orders (id int PRIMARY KEY, state text)`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `INSERT INTO orders VALUES (117, 'paid')`)
	require.NoError(t, err)
	return open(t, pool, tool)
}

// open starts a process of the shop.
func open(t *testing.T, pool *pgxpool.Pool, tool external.Tool[Refund, Refunded]) *shop {
	t.Helper()
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	tools, err := external.New(d, &external.Options{Lease: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tools.Close(context.WithoutCancel(t.Context()))) })
	refund, err := external.Add(tools, tool)
	require.NoError(t, err)
	return &shop{t, pool, tools, refund}
}

func (s *shop) do() (dedup.Result[Refunded], error) {
	return s.refund.Do(s.t.Context(), dedup.Call{Scope: "acme", Key: "return 17"}, Refund{Order: 117, Payment: "pi_1", Cents: 9900})
}

func (s *shop) requireOrder(state string) {
	s.t.Helper()
	var got string
	require.NoError(s.t, s.pool.QueryRow(s.t.Context(), `SELECT state FROM orders`).Scan(&got))
	require.Equal(s.t, state, got)
}

func (s *shop) lookup() external.Operation {
	s.t.Helper()
	status, err := s.tools.Status(s.t.Context(), "acme", "refund", "return 17")
	require.NoError(s.t, err)
	return status.Operation
}

// TestLostAnswer: the refund is made and its answer is lost. The next attempt sends the same key,
// and the replayed answer is recorded together with the order's state.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	stripe.lost[1] = true
	shop := newShop(t, Tool(stripe.URL, "sk_test"))
	first, err := shop.do()
	require.NoError(t, err)
	require.False(t, first.Replayed)
	require.Equal(t, Refunded{ID: "re_1", Status: "succeeded"}, first.Value)

	again, err := shop.do()
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Value, again.Value)
	refunds, replays := stripe.made()
	require.Equal(t, 1, refunds)
	require.Equal(t, 1, replays)
	shop.requireOrder("refunded")
	op := shop.lookup()
	require.Equal(t, external.StateDone, op.State)
	require.Equal(t, "re_1", op.Ref)
}

// TestLostRequest loses the request instead, which looks the same to the tool.
func TestLostRequest(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	var asked atomic.Int32
	stripe.gate = func() int {
		if asked.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		return 0
	}
	shop := newShop(t, Tool(stripe.URL, "sk_test"))
	_, err := shop.do()
	require.NoError(t, err)
	refunds, replays := stripe.made()
	require.Equal(t, 1, refunds)
	require.Zero(t, replays)
	shop.requireOrder("refunded")
}

// TestStillRunning: the attempt gives up while Stripe still handles it. The key is in use until
// there is an answer, which is then replayed.
func TestStillRunning(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	finish := make(chan struct{})
	stripe.endpoint = func() int {
		<-finish
		return 0
	}
	var asked atomic.Int32
	stripe.gate = func() int {
		if asked.Add(1) == 3 { // the second request met the first
			close(finish)
		}
		return 0
	}
	tool := Tool(stripe.URL, "sk_test")
	tool.Timeout = 300 * time.Millisecond
	shop := newShop(t, tool)
	result, err := shop.do()
	require.NoError(t, err)
	require.Equal(t, "re_1", result.Value.ID)
	refunds, replays := stripe.made()
	require.Equal(t, 1, refunds)
	require.Positive(t, replays, "one for each that was not cut off")
}

// TestBusy: Stripe refuses before anything runs, and the tool tries again.
func TestBusy(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	var asked atomic.Int32
	stripe.gate = func() int {
		if asked.Add(1) < 3 {
			return http.StatusTooManyRequests
		}
		return 0
	}
	shop := newShop(t, Tool(stripe.URL, "sk_test"))
	_, err := shop.do()
	require.NoError(t, err)
	require.EqualValues(t, 3, asked.Load())
	shop.requireOrder("refunded")
}

// TestRefused records the provider's refusal and updates the order.
func TestRefused(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	stripe.endpoint = func() int { return http.StatusBadRequest }
	shop := newShop(t, Tool(stripe.URL, "sk_test"))
	for _, replayed := range []bool{false, true} {
		_, err := shop.do()
		var refused *dedup.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, replayed, refused.Replayed)
		require.Contains(t, refused.Message, "charge_already_refunded")
	}
	shop.requireOrder("not refundable")
}

// TestServerError: Stripe replays the same 500, whatever happened. When Stripe may have forgotten
// the key, the refund is parked, and an operator looks it up.
func TestServerError(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	stripe.endpoint = func() int { return http.StatusInternalServerError }
	shop := newShop(t, Tool(stripe.URL, "sk_test"))
	call := dedup.Call{Scope: "acme", Key: "return 17", MaxWait: -1}
	in := Refund{Order: 117, Payment: "pi_1", Cents: 9900}
	_, err := shop.refund.Do(t.Context(), call, in)
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.Equal(t, external.StateRunning, shop.lookup().State)

	stripe.pass(24 * time.Hour)
	_, err = shop.pool.Exec(t.Context(), `UPDATE tool_effect SET sent_at = sent_at - interval '24 hours', due_at = now()`)
	require.NoError(t, err)
	_, err = shop.do()
	var parked *external.ParkedError
	require.ErrorAs(t, err, &parked)
	refunds, _ := stripe.made()
	require.Zero(t, refunds)
	shop.requireOrder("paid")

	// The dashboard shows no refund. The tool tries again; Stripe no longer knows the key.
	stripe.endpoint = func() int { return 0 }
	require.NoError(t, shop.tools.Resolve(t.Context(), parked.Operation, external.Never("no refund in the dashboard")))
	result, err := shop.do()
	require.NoError(t, err)
	require.Equal(t, "re_1", result.Value.ID)
	shop.requireOrder("refunded")
}

// TestOtherParameters: a deploy between two attempts changes the request. That is not a refusal:
// the first attempt may have refunded, and here it did.
func TestOtherParameters(t *testing.T) {
	t.Parallel()
	stripe := newStripe(t)
	stripe.lost[1] = true
	old := Tool(stripe.URL, "sk_test")
	perform := old.Perform
	old.Perform = func(ctx context.Context, a external.Attempt, in Refund) (Refunded, error) {
		in.Cents *= 10 // the older release's mistake
		return perform(ctx, a, in)
	}
	shop := newShop(t, old)
	call := dedup.Call{Scope: "acme", Key: "return 17", MaxWait: -1}
	_, err := shop.refund.Do(t.Context(), call, Refund{Order: 117, Payment: "pi_1", Cents: 9900})
	require.ErrorIs(t, err, dedup.ErrInFlight)

	deployed := open(t, shop.pool, Tool(stripe.URL, "sk_test"))
	_, err = deployed.do()
	var parked *external.ParkedError
	require.ErrorAs(t, err, &parked)
	require.Contains(t, parked.Operation.Note, "idempotency_error")

	require.NoError(t, deployed.tools.Resolve(t.Context(), parked.Operation,
		external.Happened(Refunded{ID: "re_1", Status: "succeeded"}, "re_1 in the dashboard")))
	result, err := deployed.do()
	require.NoError(t, err)
	require.Equal(t, "re_1", result.Value.ID)
	deployed.requireOrder("refunded")
}
