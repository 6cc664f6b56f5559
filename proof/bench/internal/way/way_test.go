package way_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestChoose(t *testing.T) {
	t.Parallel()

	names := func(ways []way.Way) (names []string) {
		for _, w := range ways {
			names = append(names, w.Name)
		}
		return names
	}
	ways, err := way.Choose([]string{"redis", "do"})
	require.NoError(t, err)
	require.Equal(t, []string{"bare", "do", "redis"}, names(ways), "the base always, and first")

	ways, err = way.Choose(nil)
	require.NoError(t, err)
	require.Equal(t, names(way.All()), names(ways))

	_, err = way.Choose([]string{"don't"})
	require.ErrorContains(t, err, "choose from bare, textbook")
}

func start(t *testing.T) *bed.Bed {
	t.Helper()
	b, err := bed.Start(t.Context(), bed.Options{Fast: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Stop(t.Context())) })
	return b
}

// TestAcceptRestarts makes the first INSERT of an operation fail so that its transaction cannot go
// on. The answer is ErrRestartTx, and the way runs its transaction again.
func TestAcceptRestarts(t *testing.T) {
	t.Parallel()
	s, err := start(t).Site(t.Context(), way.Named("accept"))
	require.NoError(t, err)
	t.Cleanup(s.Close)
	_, err = s.Pool.Exec(t.Context(), `
		CREATE SEQUENCE inserts;
		CREATE FUNCTION fail_first() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF nextval('inserts') = 1 THEN
				RAISE serialization_failure;
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER fail_first BEFORE INSERT ON tool_effect FOR EACH ROW EXECUTE FUNCTION fail_first()`)
	require.NoError(t, err)

	require.NoError(t, s.Seed(t.Context(), 1))
	require.NoError(t, s.Verify(t.Context()))
	var inserts int
	require.NoError(t, s.Pool.QueryRow(t.Context(), `SELECT last_value FROM inserts`).Scan(&inserts))
	require.Equal(t, 2, inserts)
}

func TestPoolIsWarm(t *testing.T) {
	t.Parallel()

	b := start(t)
	pool, err := way.Pool(t.Context(), b.URL, 3)
	require.NoError(t, err)
	defer pool.Close()
	require.EqualValues(t, 3, pool.Stat().IdleConns())
	require.EqualValues(t, 3, pool.Stat().MaxConns())

	_, err = way.Pool(t.Context(), b.URL, 1000)
	require.ErrorContains(t, err, "connecting 1000 times")
}
