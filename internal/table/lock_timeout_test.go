package table

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// TestCancelledAtLimit: a statement was cancelled at its limit only if it took that long.
func TestCancelledAtLimit(t *testing.T) {
	t.Parallel()
	state := func(code string) error { return &pgconn.PgError{Code: code} }
	for name, c := range map[string]struct {
		err         error
		took, limit time.Duration
		want        bool
	}{
		"AtTheLimit":       {state("57014"), time.Second, time.Second, true},
		"CancelledBefore":  {state("57014"), time.Second - 1, time.Second, false},
		"WithoutALimit":    {state("57014"), time.Hour, 0, false},
		"LockTimeout":      {state("55P03"), time.Hour, time.Second, false},
		"AnotherError":     {state("40P01"), time.Hour, time.Second, false},
		"NotOfTheServer":   {errors.New("no paper"), time.Hour, time.Second, false},
		"NoErrorAfterLong": {nil, time.Hour, time.Second, false},
	} {
		require.Equal(t, c.want, CancelledAtLimit(c.err, c.took, c.limit), name)
	}
}
