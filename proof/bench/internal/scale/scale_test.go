package scale

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setup starts a server that need not keep data safe: tests look at counts and never at times.
func setup(t *testing.T) (*bed.Bed, *bytes.Buffer) {
	t.Helper()
	b, err := bed.Start(t.Context(), bed.Options{Fast: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Stop(t.Context())) })
	var out bytes.Buffer
	b.Out, b.Say = &out, t.Logf
	return b, &out
}

// A wrong command line is refused before a server is started.
func TestFlags(t *testing.T) {
	t.Parallel()

	for name, wrong := range map[string][][]string{
		"growth":  {{"--sizes", "0"}, {"--sizes", ""}, {"--calls", "0"}, {"argument"}},
		"sweep":   {{"--records", "0"}, {"argument"}},
		"recover": {{"--backlog", "0"}, {"argument"}},
	} {
		for _, args := range wrong {
			root := &cobra.Command{SilenceUsage: true, SilenceErrors: true}
			root.AddCommand(GrowthCommand(), SweepCommand(), RecoverCommand())
			var out bytes.Buffer
			root.SetArgs(append([]string{name}, args...))
			root.SetOut(&out)
			require.Error(t, root.ExecuteContext(t.Context()), "%s %v", name, args)
			require.Empty(t, out.String())
		}
	}
}

// A whole command: on a private server with the settings of production.
func TestCommandWritesItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "growth.json")
	var out bytes.Buffer
	cmd := GrowthCommand()
	cmd.SetArgs([]string{"--sizes", "100", "--calls", "5", "--json", file})
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	require.NoError(t, cmd.ExecuteContext(t.Context()))

	g, err := measure.ReadJSON[Growth](file)
	require.NoError(t, err)
	require.Len(t, g.Rows, 4, "kinds of keys, numbers of clients")
	require.NotEmpty(t, g.Machine.Source)
	require.Equal(t, "on", g.Machine.Settings["fsync"])
	require.Equal(t, "on", g.Machine.Settings["full_page_writes"])
	require.Equal(t, "on", g.Machine.Settings["synchronous_commit"])
	require.Contains(t, out.String(), "checkpoint_timeout 1h")
}

// The keys of a filled table have the form of a call's keys.
func TestKeysOfFilledTables(t *testing.T) {
	t.Parallel()
	b, _ := setup(t)
	for kind, form := range map[KeyKind]string{OrderedKeys: `^ts1_[0-9a-v]{9}_[0-9A-Za-z_-]{22}$`, RandomKeys: `^[0-9A-Za-z_-]{22}$`} {
		require.Regexp(t, form, kind.newKey())
		site, err := filled(t.Context(), b, fresh(kind, 100))
		require.NoError(t, err)
		defer site.Close()
		rows, _ := site.Pool.Query(t.Context(), "SELECT key, created_at FROM tool_dedup ORDER BY ctid")
		var key, before string
		var created time.Time
		_, err = pgx.ForEachRow(rows, []any{&key, &created}, func() error {
			require.Regexp(t, form, key)
			require.Less(t, before, key, "a chunk is sorted")
			before = key
			if kind == OrderedKeys {
				timedKey, err := dedup.TimedKey(created, key[timed:])
				require.NoError(t, err)
				require.Equal(t, timedKey, key, "ordered by when it was made")
			}
			return nil
		})
		require.NoError(t, err)
	}
}

// A filled table equals a table that calls filled: the same rows and sizes, and the library replays
// them.
func TestFilledRecordsAreTheLibrarysOwn(t *testing.T) {
	t.Parallel()
	b, _ := setup(t)
	site, err := filled(t.Context(), b, fresh(RandomKeys, 2500))
	require.NoError(t, err)
	defer site.Close()
	sizes, err := sizesOf(t.Context(), site)
	require.NoError(t, err)
	require.EqualValues(t, 2500, sizes.Records, "without the specimen")
	require.Equal(t, sizes.Total, sizes.Heap+sizes.PrimaryKey+sizes.DueIndex)

	var key string
	var due, ages int
	pool := site.Pool
	require.NoError(t, pool.QueryRow(t.Context(), `
		SELECT min(key), count(*) FILTER (WHERE expires_at <= now()), count(DISTINCT created_at) FROM tool_dedup`).Scan(&key, &due, &ages))
	require.Zero(t, due)
	require.Equal(t, 2500, ages, "created one after the other")

	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	specimen := map[string]string{"ref": site.Seeds[0]}
	result, err := dedup.Do(t.Context(), d, dedup.Call{Scope: way.Scope, Tool: way.Tool, Key: key, Args: specimen},
		func(context.Context, pgx.Tx) (any, error) { return nil, errors.New("it is a first call") })
	require.NoError(t, err)
	require.True(t, result.Replayed)
	require.Equal(t, map[string]any{"id": 1.0}, result.Value)
	require.Equal(t, day, result.ExpiresAt.Sub(result.CreatedAt))

	// A call of the library. Its effect's id has as many digits.
	require.NoError(t, site.Session(t.Context(), site.Env(1), func(session *way.Session) error {
		return session.Call(t.Context(), []string{RandomKeys.newKey()})
	}))
	var widths int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(DISTINCT pg_column_size(t.*)) FROM tool_dedup t`).Scan(&widths))
	require.Equal(t, 1, widths, "all rows are equally wide")
}

func TestLongGrowth(t *testing.T) {
	t.Parallel()
	b, out := setup(t)
	o := GrowthOptions{Sizes: []int{200, 1000}, Clients: []int{1, 4}, Rounds: 3, Calls: 20}
	g, err := growth(t.Context(), b, o)
	require.NoError(t, err)

	require.Len(t, g.Rows, 2*2*2, "kinds, sizes, clients")
	for _, row := range g.Rows {
		for _, way := range []measure.Latency{row.Bare, row.Small, row.Call} {
			require.Equal(t, 3*20, way.Calls)
			require.Positive(t, way.P50)
			require.GreaterOrEqual(t, way.P99, way.P50)
		}
		require.Positive(t, row.ToSmall)
		require.Positive(t, row.ToBare)
	}
	require.Len(t, g.Tables, 2*2)
	for i, table := range g.Tables {
		require.EqualValues(t, o.Sizes[i%2], table.Records)
		require.Greater(t, float64(table.Heap)/float64(table.Records), 150.0)
		require.Greater(t, table.Warm, 300.0, "a row, two entries and a COMMIT")
	}
	g.write(out)
	require.Contains(t, out.String(), "to small table")
}

func TestLongSweep(t *testing.T) {
	t.Parallel()
	b, out := setup(t)
	o := SweepOptions{Records: 2500, Rest: -1, Rate: 200, Clients: 2, Quiet: 200 * time.Millisecond}
	require.NoError(t, sweep(t.Context(), b, o))
	require.Contains(t, out.String(), "tombstones")

	perSecond, calls, err := sweepOf(t.Context(), b, o, expires, true)
	require.NoError(t, err)
	require.Positive(t, perSecond)
	require.Positive(t, calls[0].Calls)
	require.Positive(t, calls[2].Calls)
}

// A sweep that left due records or took others is not reported.
func TestSweepAllChecksTheCounts(t *testing.T) {
	t.Parallel()
	b, _ := setup(t)
	site, err := filled(t.Context(), b, filling{keys: OrderedKeys, records: 100, from: 3 * day, to: 2 * day, result: day, tombstone: 30 * day})
	require.NoError(t, err)
	defer site.Close()
	_, err = sweepAll(t.Context(), site, SweepOptions{Records: 101}, expires)
	require.ErrorContains(t, err, "the sweep took")
	require.ErrorContains(t, err, "Expired:100")
}

func TestLongRecover(t *testing.T) {
	t.Parallel()
	b, out := setup(t)
	o := RecoverOptions{Backlog: 100, Dead: 50, Provider: time.Millisecond, Conns: 4, Rate: 50, Paced: time.Second}
	require.NoError(t, outboxes(t.Context(), b, o))
	require.Contains(t, out.String(), "The dead one has 50 operations")
}
