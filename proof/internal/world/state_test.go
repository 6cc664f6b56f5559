package world_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// setup is a world with the small recording.
func setup(t *testing.T) *pgxpool.Pool {
	t.Helper()
	rec, err := recording.Small()
	require.NoError(t, err)
	return newReplayer(t, rec).pool
}

// snapshot is every row that a tool can see or write.
func snapshot(t *testing.T, db world.DB) string {
	t.Helper()
	rows, err := db.Query(t.Context(), `
		SELECT 'airline_users', to_json(u)::text FROM airline_users u
		UNION ALL SELECT 'airline_reservations', to_json(r)::text FROM airline_reservations r
		UNION ALL SELECT 'retail_users', to_json(u)::text FROM retail_users u
		UNION ALL SELECT 'retail_orders', to_json(o)::text FROM retail_orders o
		UNION ALL SELECT 'effects', to_json(e)::text FROM effects e
		ORDER BY 1, 2`)
	require.NoError(t, err)
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Row string }])
	require.NoError(t, err)
	text, err := json.Marshal(lines)
	require.NoError(t, err)
	return string(text)
}

// makeAMess changes, inserts and deletes rows of every table that tools write.
func makeAMess(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		UPDATE airline_users SET doc = '{"name": "someone else"}' WHERE user_id = 'ines_marwick_204';
		DELETE FROM airline_users WHERE user_id = 'tobin_easterly_318';
		UPDATE airline_reservations SET doc = jsonb_set(doc::jsonb, '{status}', '"cancelled"')::json WHERE reservation_id = 'R7KQ2A';
		UPDATE airline_reservations SET doc = doc WHERE reservation_id = 'M3PL9Z';
		INSERT INTO airline_reservations (reservation_id, doc) VALUES ('HATHAT', '{"reservation_id": "HATHAT", "user_id": "u"}');
		INSERT INTO retail_users (user_id, doc) VALUES ('new', '{}');
		DELETE FROM retail_users WHERE user_id = 'new';
		DELETE FROM retail_orders WHERE order_id = '#K1001';
		INSERT INTO effects (domain, tool, subject, call_ref) VALUES ('d', 't', 's', 'r')`)
	require.NoError(t, err)
}

// reset puts both domains back.
func reset(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	require.NoError(t, world.Reset(t.Context(), pool, "airline"))
	require.NoError(t, world.Reset(t.Context(), pool, "retail"))
}

func TestReset(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	pristine := snapshot(t, pool)

	for range 2 {
		makeAMess(t, pool)
		require.NotEqual(t, pristine, snapshot(t, pool))
		require.NoError(t, world.Reset(t.Context(), pool, "airline"))
		retail, err := world.Changed(t.Context(), pool, "retail")
		require.NoError(t, err)
		require.NotEmpty(t, retail, "the other domain is left alone")
		reset(t, pool)
		require.Equal(t, pristine, snapshot(t, pool))
	}
	for _, domain := range []string{"airline", "retail"} {
		state, err := world.Changed(t.Context(), pool, domain)
		require.NoError(t, err)
		require.Empty(t, state)
	}
}

// A writer that a reset did not see is seen afterwards.
func TestWriterInFlight(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `DELETE FROM retail_orders WHERE order_id = '#K1001'`)
	require.NoError(t, err)
	reset(t, pool)
	require.NoError(t, tx.Commit(t.Context()))

	state, err := world.Changed(t.Context(), pool, "retail")
	require.NoError(t, err)
	require.Contains(t, state["orders"], "#K1001")
}

func TestChanged(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	makeAMess(t, pool)

	airline, err := world.Changed(t.Context(), pool, "airline")
	require.NoError(t, err)
	require.Len(t, airline, 2)
	require.JSONEq(t, `{"name": "someone else"}`, string(airline["users"]["ines_marwick_204"]))
	require.Equal(t, recording.Null, string(airline["users"]["tobin_easterly_318"]))
	require.Len(t, airline["reservations"], 2, "M3PL9Z was written as it was")
	require.Contains(t, airline["reservations"], "HATHAT")

	retail, err := world.Changed(t.Context(), pool, "retail")
	require.NoError(t, err)
	require.Equal(t, recording.State{"orders": {"#K1001": json.RawMessage("null")}}, retail)
}

// Numbers of a document come back digit by digit, whatever their size.
func TestDocumentsAreFaithful(t *testing.T) {
	t.Parallel()
	rec, err := recording.Small()
	require.NoError(t, err)
	doc := `{"user_id":"u", "z":0.20999999999999375, "big":9007199254740993, "a":1.10, "a b":"é<>&"}`
	rec.Tables["retail_users"] = append(rec.Tables["retail_users"], recording.Row{ID: "u", Doc: json.RawMessage(doc)})
	pool := newReplayer(t, rec).pool
	var got string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT doc::text FROM retail_users WHERE user_id = 'u'`).Scan(&got))
	require.Equal(t, doc, got)
}

// Two worlds in two schemas of one database do not see each other.
func TestTwoWorldsInOneDatabase(t *testing.T) {
	t.Parallel()
	rec, err := recording.Small()
	require.NoError(t, err)
	db := pgtest.NewEmpty(t)
	inSchema := func(name string) *pgxpool.Pool {
		pool := db.Pool(t, func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["search_path"] = name
		})
		_, err := pool.Exec(t.Context(), `CREATE SCHEMA `+pgx.Identifier{name}.Sanitize())
		require.NoError(t, err)
		require.NoError(t, world.Create(t.Context(), pool, rec))
		return pool
	}
	one, two := inSchema("one"), inSchema("two")
	pristine := snapshot(t, two)
	makeAMess(t, one)
	require.Equal(t, pristine, snapshot(t, two))
	reset(t, one)
	require.Equal(t, pristine, snapshot(t, one))
}

func TestCreateIsAllOrNothing(t *testing.T) {
	t.Parallel()
	rec, err := recording.Small()
	require.NoError(t, err)
	pool := pgtest.NewEmpty(t).Pool(t)
	flights := rec.Tables["airline_flights"]
	rec.Tables["airline_flights"] = []recording.Row{{ID: "QX1", Doc: json.RawMessage("[]")}}
	require.ErrorContains(t, world.Create(t.Context(), pool, rec), "creating world: loading airline_flights")
	rec.Tables["airline_flights"] = flights
	require.NoError(t, world.Create(t.Context(), pool, rec))
	require.Error(t, world.Create(t.Context(), pool, rec))
}

// What dedup exists to prevent is visible without it: a call that ran twice
// has two rows in the log, one that was rolled back none.
func TestEffectsAreCounted(t *testing.T) {
	t.Parallel()
	pool := setup(t)
	cancel := find(world.Tools()["airline"], "cancel_reservation")
	args := json.RawMessage(`{"reservation_id":"T5WD1C"}`)
	run := func(ctx context.Context, commit bool) {
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(t.Context())
		_, err = cancel.Run(ctx, tx, args)
		require.NoError(t, err)
		if commit {
			require.NoError(t, tx.Commit(t.Context()))
		}
	}
	run(kit.WithCallRef(t.Context(), "twice"), true)
	run(kit.WithCallRef(t.Context(), "twice"), true)
	run(kit.WithCallRef(t.Context(), "lost"), false)
	run(t.Context(), true)

	counts, err := world.Effects(t.Context(), pool)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"twice": 2, "": 1}, counts)
}
