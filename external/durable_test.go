package external_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestCommitsAreDurable uses a session with synchronous_commit off, whose commits a crash may lose.
// Commits that prevent a second attempt are durable all the same.
func TestCommitsAreDurable(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool := db.Pool(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
	f := process(t, pool)
	_, err := pool.Exec(f.ctx, `CREATE TABLE changes (state text, synced text);
		CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO changes VALUES (NEW.state, current_setting('synchronous_commit')); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE ON tool_effect DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note()`)
	require.NoError(t, err)
	tries := 0
	h := add(f, external.Tool[in, out]{Perform: func(context.Context, external.Attempt, in) (out, error) {
		if tries++; tries == 1 {
			return out{}, external.NotDone(errors.New("429"))
		}
		return out{}, errLost
	}})
	_, err = h.Do(f.ctx, call("k"), in{1})
	require.ErrorAs(t, err, new(*external.ParkedError))
	require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), external.Refuse("not seen")))
	rows, err := pool.Query(f.ctx, `SELECT DISTINCT state || ' ' || synced FROM changes ORDER BY 1`)
	require.NoError(t, err)
	seen, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Equal(t, []string{"done on", "parked on", "pending on", "running on"}, seen)
}
