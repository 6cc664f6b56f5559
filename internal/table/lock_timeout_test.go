package table

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// TestGaveUp: a cancelled statement gave up waiting only if it took as long as its limit.
func TestGaveUp(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return &pgconn.PgError{Code: code} }
	for name, c := range map[string]struct {
		err         error
		took, limit time.Duration
		want        bool
	}{
		"LockTimeout":      {state("55P03"), 0, time.Second, true},
		"AtTheLimit":       {state("57014"), time.Second, time.Second, true},
		"CancelledBefore":  {state("57014"), time.Second - 1, time.Second, false},
		"WithoutALimit":    {state("57014"), time.Hour, 0, false},
		"AnotherError":     {state("40P01"), time.Hour, time.Second, false},
		"NotOfTheServer":   {errors.New("no paper"), time.Hour, time.Second, false},
		"NoErrorAfterLong": {nil, time.Hour, time.Second, false},
	} {
		require.Equal(t, c.want, GaveUp(c.err, c.took, c.limit), name)
	}
}
