package bed

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, opts Options) *Bed {
	t.Helper()
	s, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(t.Context())) })
	return s
}

// The tests' own server is faster than production allows.
func TestProductionIsRequired(t *testing.T) {
	t.Parallel()

	fast := start(t, Options{Fast: true})
	require.ErrorContains(t, fast.requireProduction(t.Context()), "the server runs with fsync = off")
	durable := start(t, Options{Settings: map[string]string{"fsync": "off", "shared_buffers": "16MB"}})
	require.NoError(t, durable.requireProduction(t.Context()), "no setting of the caller's turns it off")

	m, err := durable.Machine(t.Context())
	require.NoError(t, err)
	require.Positive(t, m.Cores)
	require.NotEmpty(t, m.Postgres)
	require.Equal(t, "on", m.Settings["fsync"])
	require.Equal(t, "16MB", m.Settings["shared_buffers"])
}
