package replay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// TestSystematicErrorEnds requires that a replay in which every write fails alike ends at the first
// write and gives the reason once.
func TestSystematicErrorEnds(t *testing.T) {
	t.Parallel()
	for _, way := range []worker.Way{worker.Registry, worker.HTTP, worker.MCP} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			errs := &breaking{t: t, server: db.URL, table: "tool_dedup"}
			var out bytes.Buffer
			code := program(t.Context(), []string{
				"replay", "--recording", smallDir, "--database-url", db.URL, "--through", string(way), "--seed", "7", "--verbose",
			}, &out, errs)
			require.Equal(t, 1, code, errs)
			require.Empty(t, out.String(), "the figures of an arm that has not ended")
			last := errs.lastLine()
			require.Contains(t, last, "the last 5 deliveries failed with one error")
			require.Contains(t, last, "call 2, update_reservation_flights")
			if way == worker.Registry { // the others hide the cause from clients
				require.Contains(t, last, "tool_dedup")
			}
			require.LessOrEqual(t, strings.Count(errs.String(), "delivered again"), 8*4, "four times by each of at most eight workers")
			requireDropped(t, db, errs.String())
		})
	}
}

// breaking reads the output of a replay and renames a table in the first database that it names.
type breaking struct {
	t             *testing.T
	server, table string
	broken        bool
	bytes.Buffer
}

var announced = regexp.MustCompile(`database (dedup_replay_\w+)`)

// Write may not end the test: the replay holds a lock while it calls it.
func (b *breaking) Write(text []byte) (int, error) {
	if name := announced.FindSubmatch(text); name != nil && !b.broken {
		b.broken = true
		assert.NoError(b.t, b.rename(string(name[1])))
	}
	return b.Buffer.Write(text)
}

func (b *breaking) rename(database string) error {
	config, err := pgx.ParseConfig(b.server)
	if err != nil {
		return err
	}
	config.Database = database
	conn, err := pgx.ConnectConfig(context.Background(), config)
	if err != nil {
		return err
	}
	_, err = conn.Exec(context.Background(), "ALTER TABLE "+b.table+" RENAME TO away")
	return errors.Join(err, conn.Close(context.Background()))
}

func (b *breaking) lastLine() string {
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	return lines[len(lines)-1]
}

// TestFailingToolEnds requires the same of both arms if the tools fail.
func TestFailingToolEnds(t *testing.T) {
	t.Parallel()
	for name, arg := range map[string]string{"Dedup": "--naive=false", "Naive": "--naive"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewEmpty(t)
			errs := &breaking{t: t, server: db.URL, table: "replay_calls"}
			code := program(t.Context(), []string{"replay", "--recording", smallDir, "--database-url", db.URL, arg, "--verbose"}, io.Discard, errs)
			require.Equal(t, 1, code, errs)
			require.Contains(t, errs.String(), "call 0, get_user_details: no answer after 5 tries: the last 5 deliveries failed with one error")
			require.Equal(t, 4, strings.Count(errs.String(), "delivered again"))
			requireDropped(t, db, errs.String())
		})
	}
}
