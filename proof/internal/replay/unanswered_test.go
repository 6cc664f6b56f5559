package replay

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnanswered(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		errs  func(n int) string
		takes time.Duration // a delivery
		want  int           // deliveries until the call is given up
		says  string
	}{
		"OneError":      {func(int) string { return "no table" }, 0, 5, "no table"},
		"OtherPorts":    {func(n int) string { return fmt.Sprintf("dial :%d", n) }, 0, 5, "dial :4"},
		"TwoByTurns":    {func(n int) string { return []string{"reset", "closed"}[n%2] }, 0, 25, "no answer after 25 deliveries"},
		"AtLast":        {func(n int) string { return []string{"reset", "no table"}[min(n/3, 1)] }, 0, 8, "no table"},
		"Slow":          {func(int) string { return "no lock" }, 2 * time.Second, 4, "no lock"},
		"RatherSlow":    {func(int) string { return "no lock" }, 1400 * time.Millisecond, 5, "no lock"},
		"SlowOthersOut": {func(n int) string { return []string{"reset", "no lock"}[min(n, 1)] }, 3 * time.Second, 5, "no lock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				u := newUnanswered()
				for n := range tt.want {
					time.Sleep(tt.takes) //nolint:forbidigo // the clock is the bubble's
					cause := errors.New(tt.errs(n))
					err := u.add(cause)
					if n < tt.want-1 {
						require.NoError(t, err, "delivery %d", n+1)
						continue
					}
					require.ErrorIs(t, err, cause)
					require.ErrorContains(t, err, tt.says)
				}
			})
		})
	}
}
