package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy/schedule"
	"github.com/tooldedup/dedup/internal/orders"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestOrders plays some mixes of callers in every order of their round trips, and draws orders with
// faults. The campaign orders plays all mixes.
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
			theatre, err := orders.Open(t.Context(), pgtest.New(t).URL, orders.Bug{})
			require.NoError(t, err)
			defer theatre.Close()
			var count schedule.Count
			if m.Faults == nil {
				count, err = theatre.Explore(t.Context(), m, nil)
			} else { // thousands of orders
				count, err = theatre.Draw(t.Context(), m, 1, 15, nil)
			}
			require.NoError(t, err)
			require.Positive(t, count.Orders)
			t.Logf("%+v", count)
		})
	}
}
