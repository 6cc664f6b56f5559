package scale

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLongRecover(t *testing.T) {
	t.Parallel()
	o := RecoverOptions{Backlog: 100, Dead: 50, Provider: time.Millisecond, Conns: 4, Rate: 50, Paced: time.Second}
	var out bytes.Buffer
	s := setup(t)
	s.out = &out
	require.NoError(t, outbox(t.Context(), s, o))
	require.Contains(t, out.String(), "The dead one has 50 operations")
}
