package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy/schedule"
	"github.com/tooldedup/dedup/internal/orders"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestOrders plays some mixes of callers in every order of their round trips, and draws orders with
// faults.
func TestOrders(t *testing.T) {
	t.Parallel()
	ways := map[string]orders.Way{}
	for _, w := range orders.Ways {
		ways[w.Name] = w
	}
	do, doTx, statement := ways["Do"], ways["DoTx"], ways["DoStatement"]
	for _, m := range []orders.Mix{
		{Ways: []orders.Way{do, do, statement}},
		{Ways: []orders.Way{statement, doTx}, Beside: orders.Reset, Before: orders.Recorded},
		{Ways: []orders.Way{do}, Beside: orders.Reset, Twice: true},
		{Ways: []orders.Way{do}, Beside: orders.Sweep, Before: orders.Due},
		{Ways: []orders.Way{do, statement}, Fails: 1},
		{Ways: []orders.Way{do, statement}, Fails: 2, Faults: schedule.Faults},
	} {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			explore(t, func(m orders.Mix) bool { return m.Faults != nil }, m)
		})
	}
}

// TestLongOrders plays all mixes of two callers with a Reset or a failing effect in every order. Of
// the mixes with faults, with sweeps and of three callers it draws orders: these have thousands.
// The campaign orders plays all mixes in every order.
func TestLongOrders(t *testing.T) {
	t.Parallel()
	for _, kind := range orders.Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			explore(t, func(m orders.Mix) bool { return m.Faults != nil || m.Beside == orders.Sweep || len(m.Ways) > 2 }, kind.Mixes...)
		})
	}
}

// explore plays mixes in every order, or in drawn orders if many is true of the mix.
func explore(t *testing.T, many func(orders.Mix) bool, mixes ...orders.Mix) {
	t.Helper()
	const drawn, seed = 6, 1
	theatre, err := orders.Open(t.Context(), pgtest.New(t).URL, orders.Bug{})
	require.NoError(t, err)
	defer theatre.Close()
	for _, m := range mixes {
		var count schedule.Count
		if many(m) {
			count, err = theatre.Draw(t.Context(), m, seed, drawn, nil)
		} else {
			count, err = theatre.Explore(t.Context(), m, nil)
		}
		require.NoError(t, err)
		require.Positive(t, count.Orders)
		t.Logf("%v: %+v", m, count)
	}
}
