package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/cmd/dedup/internal/doctor"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// outcome is how the program ended.
type outcome struct {
	code        int
	out, errOut string
}

// run runs `dedup doctor`.
func run(ctx context.Context, args ...string) outcome {
	var out, errOut bytes.Buffer
	code := cli.Run(ctx, append([]string{"doctor"}, args...), cli.Streams{Out: &out, Err: &errOut}, doctor.Command())
	return outcome{code, out.String(), errOut.String()}
}

// report is what `dedup doctor --json` writes.
type report struct {
	Server   string           `json:"server_version"`
	Database string           `json:"database"`
	Role     string           `json:"role"`
	Schema   string           `json:"schema"`
	Sound    bool             `json:"sound"`
	Errors   int              `json:"errors"`
	Warnings int              `json:"warnings"`
	Unknown  int              `json:"unknown"`
	Findings []doctor.Finding `json:"findings"`
}

// examine runs `dedup doctor --json`.
func examine(t *testing.T, url string, args ...string) report {
	t.Helper()
	got := run(t.Context(), append([]string{"--json", "--database-url", url}, args...)...)
	var r report
	require.NoError(t, json.Unmarshal([]byte(got.out), &r), got.errOut)
	require.Equal(t, r.Errors == 0, r.Sound)
	require.Equal(t, r.Sound, got.code == exit.OK)
	for _, f := range r.Findings {
		require.NotEmpty(t, f.ID)
		if f.Severity == doctor.SeverityOK {
			require.NotEmpty(t, f.Evidence, f.ID)
			continue
		}
		require.NotEmpty(t, f.What, f.ID)
		require.NotEmpty(t, f.Fix, f.ID)
	}
	return r
}

// with returns the ids of the findings of these severities.
func (r report) with(severities ...doctor.Severity) []string {
	ids := []string{}
	for _, f := range r.Findings {
		for _, severity := range severities {
			if f.Severity == severity {
				ids = append(ids, f.ID)
			}
		}
	}
	return ids
}

// exec runs the statements as one simple query. A single statement runs without a transaction.
func exec(t *testing.T, url, statements string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	_, err = conn.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err, statements)
}

// await returns once the query's one value is true.
func await(t *testing.T, url, query string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	require.Eventually(t, func() bool {
		var yes bool
		return conn.QueryRow(t.Context(), query).Scan(&yes) == nil && yes
	}, 10*time.Minute, 10*time.Millisecond, query)
}

// private starts a server of the test's own, on which nothing is wrong but what
// the settings say, with the schema in its database postgres.
func private(t *testing.T, settings map[string]string) *pgserver.Server {
	t.Helper()
	all := map[string]string{"fsync": "on", "full_page_writes": "on"}
	for name, value := range settings {
		all[name] = value
	}
	server, err := pgserver.Start(t.Context(), &pgserver.Options{Private: true, Settings: all})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.WithoutCancel(t.Context()))) })
	sql, err := migrations.SQL()
	require.NoError(t, err)
	exec(t, server.URL, sql)
	return server
}

// configure changes a setting of a private server's that it takes while it runs.
func configure(t *testing.T, url, name, value string) {
	t.Helper()
	exec(t, url, "ALTER SYSTEM SET "+name+" = "+value)
	exec(t, url, "SELECT pg_reload_conf()")
	await(t, url, "SELECT setting = "+value+" FROM pg_settings WHERE name = '"+name+"'")
}

// withParam adds a parameter to a URL.
func withParam(t *testing.T, databaseURL, name, value string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// asRole creates a role that may use the table, and returns the URL with which it
// connects. Roles belong to the server: it is named for the database and dropped
// in the end.
func asRole(t *testing.T, databaseURL, name string) string {
	t.Helper()
	role := pgx.Identifier{name}.Sanitize()
	exec(t, databaseURL, "CREATE ROLE "+role+" LOGIN PASSWORD 'of a test'; GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup, tool_effect, tool_dedup_stat TO "+role+"; GRANT SELECT, INSERT ON tool_dedup_audit TO "+role)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.WithoutCancel(t.Context()), databaseURL)
		require.NoError(t, err)
		defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
		_, err = conn.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	})
	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	u.User = url.UserPassword(name, "of a test")
	return u.String()
}
