package doctor_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

// The output on a terminal and the exit codes: 0, 0 with a warning, 1 with a warning and --strict,
// 1 with an error.
func TestText(t *testing.T) {
	t.Parallel()

	server := private(t, map[string]string{"synchronous_commit": "on"})
	got := run(t.Context(), "--strict", "--database-url", server.URL)
	require.Equal(t, exit.OK, got.code)
	require.Empty(t, got.errOut)
	header, rest, _ := strings.Cut(got.out, "\n")
	require.Regexp(t, `^database postgres as role postgres, schema public, PostgreSQL \d`, header)
	require.Equal(t, `
ok        pooler: none
ok        client_encoding: UTF8
ok        schema: "public"."tool_dedup" is there, and as the migrations make it
ok        primary_key_name: tool_dedup_pkey
ok        citus: no Citus
ok        fsync: fsync = on, set on the server's command line
ok        full_page_writes: full_page_writes = on, set on the server's command line
ok        zero_damaged_pages: zero_damaged_pages = off, the default
ok        ignore_checksum_failure: ignore_checksum_failure = off, the default
ok        synchronous_commit: synchronous_commit = on, set on the server's command line
ok        replication: no standby
ok        sweep: nothing is due
ok        effects: nothing is due
ok        effects_sweep: nothing is due
ok        vacuum: 0 live rows, 0 dead, last vacuum never

sound
`, rest)

	exec(t, server.URL, `DROP INDEX tool_dedup_due`)
	got = run(t.Context(), "--database-url", server.URL)
	require.Equal(t, exit.OK, got.code)
	require.Empty(t, got.errOut)
	require.Contains(t, got.out, "\n1 warning\n")
	got = run(t.Context(), "--strict", "--database-url", server.URL)
	require.Equal(t, exit.Failed, got.code)
	require.Equal(t, "dedup: doctor: 1 warning\n", got.errOut)

	exec(t, server.URL, `ALTER TABLE tool_dedup SET UNLOGGED; ALTER DATABASE postgres SET zero_damaged_pages = on`)
	got = run(t.Context(), "--database-url", server.URL)
	require.Equal(t, exit.Failed, got.code)
	require.Equal(t, "dedup: doctor: 2 errors, 1 warning\n", got.errOut)
	require.Contains(t, got.out, `
ERROR     unlogged
  what          public.tool_dedup is UNLOGGED: a server crash empties it, and every call of before can run again
  fix           run: ALTER TABLE public.tool_dedup SET LOGGED
ERROR     zero_damaged_pages_on
  what          zero_damaged_pages is on: a damaged page is read as an empty one, so its records vanish without an error and their calls run again
  read          zero_damaged_pages = on, set for database postgres
  fix           run: ALTER DATABASE postgres SET zero_damaged_pages = off
WARNING   due_index_missing
  what          public.tool_dedup has no index tool_dedup_due: every sweep reads the whole table
  fix           run: CREATE INDEX tool_dedup_due ON public.tool_dedup ((CASE WHEN result IS NULL THEN forget_at ELSE expires_at END))
ok        pooler: none
`)
	require.True(t, strings.HasSuffix(got.out, "\n\n2 errors, 1 warning\n"), got.out)
}

func TestJSON(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	before := examine(t, db.URL)
	require.Equal(t, db.Name, before.Database)
	require.NotEmpty(t, before.Role)
	require.Equal(t, "public", before.Schema)
	require.NotEmpty(t, before.Server)
	exec(t, db.URL, `ALTER TABLE tool_dedup SET UNLOGGED; DROP INDEX tool_dedup_due`)
	after := examine(t, db.URL)
	require.Equal(t, before.Errors+1, after.Errors)
	require.Equal(t, before.Warnings+1, after.Warnings)
	require.Equal(t, before.Unknown, after.Unknown)
	require.False(t, after.Sound)
	require.Equal(t, doctor.SeverityError, after.Findings[0].Severity, "worst first")
}

func TestSchemaFlag(t *testing.T) {
	t.Parallel()

	db := pgtest.NewEmpty(t)
	sql, err := migrations.SQL()
	require.NoError(t, err)
	exec(t, db.URL, `CREATE SCHEMA "My tools"; SET search_path = "My tools"; `+sql)
	require.Contains(t, examine(t, db.URL).with(doctor.SeverityError), migrations.ProblemTableMissing)
	got := examine(t, db.URL, "--schema", "My tools")
	require.NotContains(t, got.with(doctor.SeverityError), migrations.ProblemTableMissing)
	require.Equal(t, "My tools", got.Schema)
	require.Subset(t, got.with(doctor.SeverityOK), []string{"schema", "primary_key_name", "sweep", "vacuum"})
}

func TestOverdueFlag(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	exec(t, db.URL, `INSERT INTO tool_dedup VALUES
		('acme', 'create_ticket', 'k', sha256('x'), NULL, 'done', '{}', now(), now() - interval '3 hours', now())`)
	require.Contains(t, examine(t, db.URL, "--overdue", "2h").with(doctor.SeverityWarning), "sweep_behind")
	require.Contains(t, examine(t, db.URL, "--overdue", "4h").with(doctor.SeverityOK), "sweep")
}

// A value that cannot be read in time is not sound. The other checks still run.
func TestLockedTable(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	tx, err := db.Pool(t).Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE tool_dedup`)
	require.NoError(t, err)
	got := examine(t, db.URL, "--timeout", "1s")
	require.Contains(t, got.with(doctor.SeverityUnknown), "sweep")
	require.NotContains(t, got.with(doctor.SeverityOK), "sweep")
	require.Contains(t, strings.Join(got.evidence(), "\n"), "SQLSTATE 57014")
	require.Contains(t, got.with(doctor.SeverityOK), "synchronous_commit")
}

func TestUnreachable(t *testing.T) {
	t.Parallel()

	got := run(t.Context(), "--database-url", "postgres://user:s3cret@127.0.0.1:1/db")
	require.Equal(t, exit.Failed, got.code, "as `dedup migrate check` answers")
	require.Empty(t, got.out)
	require.Contains(t, got.errOut, "dedup: doctor: nothing was checked: ")
	require.Contains(t, got.errOut, "127.0.0.1:1")
	require.NotContains(t, got.errOut, "--help")
	require.NotContains(t, got.errOut, "s3cret")
}

func TestUsage(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{
		{"now"}, {"--fast"}, {"--schema", "", "--database-url", "postgres://localhost/db"},
		{"--timeout", "0s", "--database-url", "postgres://localhost/db"},
		{"--timeout", "600h", "--database-url", "postgres://localhost/db"},
		{"--overdue", "-1s", "--database-url", "postgres://localhost/db"},
		{"--database-url", "postgres://user:s3cret@localhost:port/db"},
	} {
		got := run(t.Context(), args...)
		require.Equal(t, exit.Misused, got.code, args)
		require.Empty(t, got.out)
		require.Contains(t, got.errOut, "--help` for help")
		require.NotContains(t, got.errOut, "s3cret")
	}
	got := run(t.Context(), "--help")
	require.Equal(t, exit.OK, got.code)
	require.Contains(t, got.out, "The exit code is 1 if there is an error")
}

func TestInterrupted(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	tx, err := db.Pool(t).Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE tool_dedup`)
	require.NoError(t, err)

	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan outcome, 1)
	go func() { ended <- run(ctx, "--timeout", "1h", "--database-url", db.URL) }()
	await(t, db.URL, `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'tool_dedup'::regclass)`)
	interrupt()
	require.Equal(t, outcome{exit.Interrupted, "", "dedup: interrupted\n"}, <-ended)

	ended <- run(ctx, "--database-url", db.URL)
	require.Equal(t, exit.Interrupted, (<-ended).code)
}

// The transactions that it reads in can change nothing.
func TestReadsInReadOnlyTransactions(t *testing.T) {
	t.Parallel()

	db := pgtest.New(t)
	exec(t, db.URL, `ALTER TABLE tool_dedup RENAME TO records;
		CREATE FUNCTION look() RETURNS SETOF records LANGUAGE plpgsql AS $$ BEGIN
			IF current_setting('transaction_read_only') <> 'on' THEN RAISE EXCEPTION 'this transaction can write'; END IF;
			RETURN QUERY SELECT * FROM records;
		END $$;
		CREATE VIEW tool_dedup AS SELECT * FROM look()`)
	got := examine(t, db.URL)
	require.NotContains(t, strings.Join(got.evidence(), "\n"), "can write")
	require.Contains(t, got.with(doctor.SeverityOK), "sweep", "it looked")

	conn, err := pgx.Connect(t.Context(), db.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), `SELECT FROM tool_dedup`)
	require.ErrorContains(t, err, "can write", "the view would have told")
}
