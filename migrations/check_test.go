package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

func TestCheckSound(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	pool := db.Pool(t)
	exec(t, pool, `INSERT INTO tool_dedup VALUES
		('acme', 'create_ticket', 'k1', sha256('x'), NULL, 'done', '{}', now(), now(), now())`)

	t.Run("Pool", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, migrations.Check(t.Context(), pool, nil))
		require.NoError(t, migrations.Check(t.Context(), pool, &migrations.CheckOptions{}))
		require.NoError(t, migrations.Check(t.Context(), pool, &migrations.CheckOptions{Schema: "public"}))
	})

	t.Run("Conn", func(t *testing.T) {
		t.Parallel()
		conn, err := pgx.Connect(t.Context(), db.URL)
		require.NoError(t, err)
		defer conn.Close(context.WithoutCancel(t.Context()))
		require.NoError(t, migrations.Check(t.Context(), conn, nil))
	})

	t.Run("TxStaysUsable", func(t *testing.T) {
		t.Parallel()
		tx, err := pool.Begin(t.Context())
		require.NoError(t, err)
		defer tx.Rollback(context.WithoutCancel(t.Context()))
		require.NoError(t, migrations.Check(t.Context(), tx, nil))
		problems(t, tx, &migrations.CheckOptions{Schema: "nowhere"})
		require.NoError(t, tx.Commit(t.Context()))
	})

	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run("Mode"+mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := db.Pool(t, func(config *pgxpool.Config) { config.ConnConfig.DefaultQueryExecMode = mode })
			require.NoError(t, migrations.Check(t.Context(), pool, nil))
		})
	}

	t.Run("WhateverTheSearchPath", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, migrations.Check(t.Context(), db.Pool(t, param("search_path", "nowhere")), nil))
	})
}

func TestCheckIsFewQueries(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	for range 2 {
		counted := &counting{Querier: pool}
		require.NoError(t, migrations.Check(t.Context(), counted, nil))
		require.Equal(t, 2, counted.queries)
		exec(t, pool, "DROP TABLE IF EXISTS tool_dedup_version")
	}
}

func TestCheckCannotRead(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	var schema *migrations.SchemaError
	for nth := 1; nth <= 2; nth++ {
		err := migrations.Check(t.Context(), &failing{Querier: pool, nth: nth}, nil)
		require.EqualError(t, err, "migrations: reading the catalogues: the line is dead")
		require.ErrorIs(t, err, errFailing)
		require.NotErrorAs(t, err, &schema)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, migrations.Check(ctx, pool, nil), context.Canceled)
}

func TestSchemaError(t *testing.T) {
	t.Parallel()

	err := &migrations.SchemaError{Problems: []migrations.Problem{
		{Name: "a", What: "it is so", Fix: "run: X"},
	}}
	require.EqualError(t, err, "dedup: the schema is not sound, 1 problem:\n- a: it is so; run: X")

	err.Problems = append(err.Problems, migrations.Problem{Name: "b", What: "and so", Fix: "move"})
	require.EqualError(t, err, "dedup: the schema is not sound, 2 problems:\n- a: it is so; run: X\n- b: and so; move")
}

// Check finds all problems at once, and their fixes work in its order.
func TestCheckFindsAllAtOnce(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	exec(t, pool, `
		ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey;
		ALTER TABLE tool_dedup DROP COLUMN fingerprint, ALTER COLUMN scope DROP NOT NULL;
		ALTER TABLE tool_dedup ALTER COLUMN key TYPE varchar(40) COLLATE "C";
		CREATE UNIQUE INDEX one_result ON tool_dedup (result);
		DROP INDEX tool_dedup_due;
		ALTER TABLE tool_dedup SET UNLOGGED`)
	found := problems(t, pool, nil)
	require.Equal(t, []string{
		"column_missing", "column_type", "column_nullable",
		"primary_key_missing", "unique_extra", "due_index_missing",
		"unlogged",
	}, names(found))
	require.Empty(t, repair(t, pool, found))
	require.NoError(t, migrations.Check(t.Context(), pool, nil))
	require.Equal(t, dump(t, pgtest.New(t).Pool(t), "public").constraints, dump(t, pool, "public").constraints)
}

func TestFixesMakeWhatTheMigrationsMake(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	sound := dump(t, pool, "public")
	exec(t, pool, `
		DO $$
		DECLARE name text;
		BEGIN
			FOR name IN SELECT conname FROM pg_constraint WHERE conrelid = 'tool_dedup'::regclass AND contype IN ('p', 'c') LOOP
				EXECUTE 'ALTER TABLE tool_dedup DROP CONSTRAINT ' || name;
			END LOOP;
		END $$;
		DROP INDEX tool_dedup_due`)
	found := problems(t, pool, nil)
	require.Equal(t, []string{"primary_key_missing", "due_index_missing"}, names(found))
	require.Empty(t, repair(t, pool, found))
	require.Equal(t, sound, dump(t, pool, "public"))
}

// Goose has rolled one migration back, and the fix applies it again.
func TestCheckFindsThatOneMigrationIsPending(t *testing.T) {
	t.Parallel()

	pool := pgtest.New(t).Pool(t)
	p := provider(t, pool)
	_, err := p.Down(t.Context())
	require.NoError(t, err)
	found := problems(t, pool, nil)
	require.Equal(t, []string{migrations.ProblemMigrationsPending}, names(found))
	require.Contains(t, found[0].What, "does not record migration 2")

	_, err = p.Up(t.Context())
	require.NoError(t, err)
	require.NoError(t, migrations.Check(t.Context(), pool, nil))
}

// Goose has recorded some of the migrations, and Check names the others.
func TestCheckPendingMigrations(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ name, versions, want string }{
		{"None", "DELETE FROM tool_dedup_version", "does not record the migration that makes it"},
		{"Some", "DELETE FROM tool_dedup_version WHERE version_id = 2", "does not record migration 2"},
		{"AllButTheTable", "DELETE FROM tool_dedup_version WHERE version_id = 1", "does not record the migration that makes it"},
		{"More", "INSERT INTO tool_dedup_version (version_id, is_applied) VALUES (3, true)", ""},
		{"NoVersionTable", "DROP TABLE tool_dedup_version", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t).Pool(t)
			exec(t, pool, tc.versions)
			found := problems(t, pool, nil)
			if tc.want == "" {
				require.Empty(t, found)
				return
			}
			require.Equal(t, []string{migrations.ProblemMigrationsPending}, names(found))
			require.Contains(t, found[0].What, tc.want)
		})
	}
}

// Goose does not apply a recorded migration again: the fix must do more.
func TestAdviceForATableThatWasDropped(t *testing.T) {
	t.Parallel()

	const recreate = "run `dedup migrate up --recreate`"
	pool := pgtest.New(t).Pool(t)
	exec(t, pool, `DROP TABLE tool_effect`)
	found := problems(t, pool, nil)
	require.Equal(t, []string{"effect_missing"}, names(found))
	require.Equal(t, recreate, found[0].Fix)

	exec(t, pool, `DROP TABLE tool_dedup`)
	found = problems(t, pool, nil)
	require.Equal(t, []string{migrations.ProblemTableMissing}, names(found))
	require.Contains(t, found[0].Fix, recreate[len("run "):])

	exec(t, pool, `DELETE FROM tool_dedup_version`)
	require.NotContains(t, problems(t, pool, nil)[0].Fix, "--recreate", "it can be applied")
}
