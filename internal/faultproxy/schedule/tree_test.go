package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTree counts the orders of actors with given shares.
func TestTree(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		actors [][]share
		orders int
	}{
		"two that change twice":         {[][]share{{change, change}, {change, change}}, 6},
		"three that change":             {[][]share{{change}, {change}, {change}}, 6},
		"three that only look":          {[][]share{{look, look}, {look}, {look, look, look}}, 1},
		"one that changes, two looks":   {[][]share{{change}, {look}, {look}}, 4},
		"two that change, with looks":   {[][]share{{change, look}, {change, look}}, 4},
		"private trips between changes": {[][]share{{change, private, change}, {change}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.orders, count(t, c.actors))
		})
	}
}

// count runs every order to its end.
func count(t *testing.T, actors [][]share) (orders int) {
	t.Helper()
	seen := map[string]bool{}
	for tree := (&tree{}); ; {
		tree.start()
		passed := make([]int, len(actors))
		var order string
		for {
			var ready []int
			next := func(a int) share { return actors[a][passed[a]] }
			for a, trips := range actors {
				if passed[a] < len(trips) {
					ready = append(ready, a)
				}
			}
			if len(ready) == 0 {
				orders++
				require.False(t, seen[order], order)
				seen[order] = true
				break
			}
			a, err := tree.choose(ready, next)
			if err != nil {
				require.ErrorIs(t, err, errRedundant)
				break
			}
			order += string(rune('A' + a))
			passed[a]++
		}
		if !tree.next() {
			return orders
		}
	}
}

func TestShareOf(t *testing.T) {
	t.Parallel()
	mine := func(sql string) bool {
		return sql != "SELECT effect()" && sql != "begin" && sql != "commit" && sql != "rollback"
	}
	for name, c := range map[string]struct {
		statements []string
		share      share
		ends       bool
	}{
		"a private statement":        {[]string{"SELECT effect()"}, private, false},
		"begin":                      {[]string{"begin"}, private, false},
		"commit":                     {[]string{"commit"}, change, true},
		"a look-up":                  {[]string{"SELECT result FROM record"}, look, false},
		"a lock":                     {[]string{"begin", "SELECT pg_try_advisory_xact_lock(1)"}, change, false},
		"a lock that is given back":  {[]string{"begin", "SELECT pg_try_advisory_xact_lock_shared(1)", "SELECT result FROM record", "rollback"}, look, false},
		"a record":                   {[]string{"INSERT INTO record VALUES (1)", "commit"}, change, false},
		"a record in a WITH clause":  {[]string{"WITH freed AS (DELETE FROM record RETURNING 1) SELECT 1"}, change, false},
		"a look that ends what came": {[]string{"SELECT result FROM record", "rollback"}, change, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ends := shareOf(c.statements, mine)
			require.Equal(t, c.share, got)
			require.Equal(t, c.ends, ends)
		})
	}
}
