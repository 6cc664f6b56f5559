package migrate_test

import (
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/examiner"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

func TestUp(t *testing.T) {
	t.Parallel()

	b := setup(t)
	require.Contains(t, b.fails(t, "check"), "table_missing")
	require.Empty(t, b.relations(t), "looking leaves nothing behind")
	require.Regexp(t, `^applied 00001_tool_dedup.sql in \S+\napplied 00002_tool_effect.sql in \S+\n$`, b.fine(t, "up"))
	require.NoError(t, migrations.Check(t.Context(), b.pool, nil))
	require.Equal(t, "nothing to do: all migrations are applied\n", b.fine(t, "up"))
	require.Equal(t, "\"public\".\"tool_dedup\" is sound\n", b.fine(t, "check"))
}

// Goose takes a recorded migration as applied, even if its table was dropped later.
func TestTableThatWasDropped(t *testing.T) {
	t.Parallel()

	for _, dropped := range [][]string{{"tool_effect"}, {"tool_dedup"}, {"tool_dedup_audit"}, {"tool_dedup_stat", "tool_dedup", "tool_effect"}} {
		t.Run(strings.Join(dropped, ","), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.fine(t, "up")
			before := b.relations(t)
			b.exec(t, `INSERT INTO tool_dedup SELECT 's', 't', 'k', '', NULL, 'done', '1', now(), now(), now()`)
			b.exec(t, "DROP TABLE "+strings.Join(dropped, ", "))
			require.Contains(t, b.fails(t, "check"), "dedup migrate up --recreate")

			message := b.fails(t, "up")
			require.Contains(t, message, "there is no table \"public\".\"tool_")
			require.Contains(t, message, "dedup migrate up --recreate")

			out := b.fine(t, "up", "--recreate")
			for _, table := range dropped {
				require.Contains(t, out, "\"public\".\""+table+"\" was dropped and is made again, empty\n")
			}
			b.fine(t, "check")
			require.Equal(t, before, b.relations(t))
			require.Equal(t, !slices.Contains(dropped, "tool_dedup"), b.records(t) == 1, "a table that was not dropped keeps its rows")
			require.Equal(t, "nothing to do: all migrations are applied\n", b.fine(t, "up", "--recreate"))
		})
	}
}

// The examiner lists every migration with the tables that it makes.
func TestEveryMigrationHasItsTable(t *testing.T) {
	t.Parallel()

	b := setup(t)
	files, err := fs.Glob(migrations.FS, "*.sql")
	require.NoError(t, err)
	b.fine(t, "up")
	b.exec(t, `DO $$ DECLARE t text; BEGIN
		FOR t IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^tool_' AND relname <> 'tool_dedup_version' LOOP
			EXECUTE 'DROP TABLE ' || t;
		END LOOP; END $$`)
	out := b.fine(t, "up", "--recreate")
	require.Equal(t, len(files), strings.Count(out, "applied "))
	require.Equal(t, len(examiner.Tables()), strings.Count(out, " was dropped and is made again, empty\n"))
}

// Many instances of an application migrate when they start.
func TestAtOnce(t *testing.T) {
	t.Parallel()

	b := setup(t)
	for _, args := range [][]string{{"up"}, {"up", "--recreate"}} {
		outcomes := make([]outcome, 4)
		var all sync.WaitGroup
		for i := range outcomes {
			all.Go(func() { outcomes[i] = b.migrate(t, args...) })
		}
		all.Wait()
		for _, got := range outcomes {
			require.Equal(t, exit.OK, got.code, got.errOut)
		}
		b.fine(t, "check")
		b.exec(t, "DROP TABLE tool_dedup, tool_effect")
	}
}

func TestAppliedByOtherMeans(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.exec(t, b.fine(t, "print"))
	before := b.relations(t)
	require.Contains(t, b.fails(t, "up"), "applied by other means")
	b.fine(t, "check")
	require.Equal(t, before, b.relations(t))
}

func TestSchema(t *testing.T) {
	t.Parallel()

	b := setup(t)
	require.Contains(t, b.fails(t, "up", "--schema", "My app"), `create it (CREATE SCHEMA "My app")`)
	require.Contains(t, b.fails(t, "check", "--schema", "My app"), "schema_missing")

	b.exec(t, `CREATE SCHEMA "My app"`)
	b.fine(t, "up", "--schema", "My app")
	require.Equal(t, "\"My app\".\"tool_dedup\" is sound\n", b.fine(t, "check", "--schema", "My app"))
	require.Contains(t, b.fails(t, "check"), "table_missing")
	require.Contains(t, b.relations(t), `"My app".tool_dedup`)
	b.exec(t, `DROP TABLE "My app".tool_effect`)
	b.fine(t, "up", "--recreate", "--schema", "My app")
	b.fine(t, "check", "--schema", "My app")

	b.exec(t, `DROP SCHEMA "My app" CASCADE; CREATE SCHEMA "My app"`)
	b.exec(t, b.fine(t, "print", "--schema", "My app"))
	b.fine(t, "check", "--schema", "My app")
}

func TestCheckListsAllProblems(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.fine(t, "up")
	b.exec(t, `DROP INDEX tool_dedup_due; ALTER TABLE tool_dedup SET UNLOGGED`)
	got := b.fails(t, "check")
	require.Regexp(t, `^dedup: the schema is not sound, 2 problems:\n- due_index_missing: .+; run: CREATE INDEX .+\n- unlogged: .+; run: ALTER TABLE .+\n$`, got)
}

func TestPrint(t *testing.T) {
	t.Parallel()

	want, err := migrations.SQL()
	require.NoError(t, err)
	require.Equal(t, outcome{exit.OK, want, ""}, run(t.Context(), "print"), "needs no database")
}

func TestFailures(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.exec(t, `CREATE TABLE tool_dedup_version (note text)`)
	require.Contains(t, b.fails(t, "up"), "reading tool_dedup_version")
	for _, command := range []string{"up", "check"} {
		got := run(t.Context(), command, "--database-url", "postgres://user:s3cret@127.0.0.1:1/db")
		require.Equal(t, exit.Failed, got.code)
		require.Contains(t, got.errOut, "127.0.0.1:1")
		require.NotContains(t, got.errOut, "s3cret")
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{
		{}, {"sideways"}, {"up", "now"}, {"down"}, {"print", "now"}, {"check", "now"}, {"up", "--fast"},
		{"up", "--schema", "", "--database-url", "postgres://localhost/db"},
		{"check", "--database-url", "postgres://user:s3cret@localhost:port/db"},
	} {
		got := run(t.Context(), args...)
		require.Equal(t, exit.Misused, got.code, args)
		require.Empty(t, got.out)
		require.Contains(t, got.errOut, "--help` for help")
		require.NotContains(t, got.errOut, "s3cret")
	}
	for _, command := range []string{"", "up", "print", "check"} {
		got := run(t.Context(), command, "--help")
		require.Equal(t, exit.OK, got.code)
		require.Contains(t, got.out, "--database-url")
	}
}

func TestDatabaseURL(t *testing.T) {
	db := pgtest.New(t)
	t.Setenv("DATABASE_URL", db.URL)
	require.Equal(t, exit.OK, run(t.Context(), "check").code)
	got := run(t.Context(), "check", "--database-url", pgtest.NewEmpty(t).URL)
	require.Equal(t, exit.Failed, got.code, "the flag comes first")

	t.Setenv("DATABASE_URL", "")
	for _, command := range []string{"up", "check"} {
		got := run(t.Context(), command)
		require.Equal(t, exit.Misused, got.code)
		require.Contains(t, got.errOut, "set DATABASE_URL")
	}
}
