package sqllex_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/sqllex"
	"github.com/tooldedup/dedup/internal/sqllex/corpus"
)

func TestIsTxControl(t *testing.T) {
	t.Parallel()

	t.Run("Counts", func(t *testing.T) {
		t.Parallel()
		require.GreaterOrEqual(t, len(corpus.Control), 60)
		require.GreaterOrEqual(t, len(corpus.Harmless), 40)
	})

	for i, sql := range corpus.Control {
		t.Run(fmt.Sprintf("Refused%d", i), func(t *testing.T) {
			t.Parallel()
			require.True(t, sqllex.IsTxControl(sql), "%q", sql)
			require.True(t, sqllex.IsTxControl(sql+"\n;"), "%q with more behind it", sql)
			require.True(t, sqllex.IsTxControl("SELECT 1;"+sql), "%q behind a statement", sql)
		})
	}
	for i, sql := range corpus.Harmless {
		t.Run(fmt.Sprintf("Harmless%d", i), func(t *testing.T) {
			t.Parallel()
			require.False(t, sqllex.IsTxControl(sql), "%q", sql)
			require.True(t, sqllex.IsTxControl(sql+"\n;COMMIT"), "%q with a COMMIT behind it", sql)
		})
	}
	for i, sql := range corpus.Cautious {
		t.Run(fmt.Sprintf("Cautious%d", i), func(t *testing.T) {
			t.Parallel()
			require.True(t, sqllex.IsTxControl(sql), "%q", sql)
		})
	}

	t.Run("Unterminated", func(t *testing.T) {
		t.Parallel()
		for _, sql := range []string{"'", `"`, "$$", "$a$", "/*", "/*/", "--", "E'\\", "E'", "$", "$1", "$a", "SELECT '; commit", "/* ; commit", `SELECT "; commit`, "SELECT $$; commit"} {
			require.False(t, sqllex.IsTxControl(sql), "%q", sql)
		}
	})

	// Where the time grew with the square of the length, this would not end.
	t.Run("LongTextsTakeLinearTime", func(t *testing.T) {
		t.Parallel()
		const n = 1 << 20
		for _, part := range []string{";", "'", "''", "$", "$$", "$a", "$a$", "/*", "*/", "--\n", "a;", "E'", `\`, `"`, "/**/;", "$1;", "x$$;"} {
			sqllex.IsTxControl(strings.Repeat(part, n/len(part)))
		}
	})
}

// TestIsTxControlAgainstServer asks the server which texts end the transaction in which they run:
// exactly those that the lists call control.
func TestIsTxControlAgainstServer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	pool := pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol })
	_, err := pool.Exec(ctx, corpus.Schema)
	require.NoError(t, err)

	ended := func(t *testing.T, sql string) (bool, error) {
		conn, err := pool.Acquire(ctx)
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(ctx, "BEGIN; SAVEPOINT s; PREPARE plan AS SELECT 1; CREATE TABLE IF NOT EXISTS witness (a int)")
		require.NoError(t, err)
		_, failed := conn.Exec(ctx, sql)
		left := conn.Conn().PgConn().TxStatus()
		_, err = conn.Exec(ctx, "ROLLBACK; DEALLOCATE ALL")
		require.NoError(t, err)
		for _, prepared := range preparedTransactions(t, ctx, conn) { // where the server takes them, they hold the table
			_, err = conn.Exec(ctx, "ROLLBACK PREPARED '"+prepared+"'")
			require.NoError(t, err)
		}
		_, err = conn.Exec(ctx, "DROP TABLE IF EXISTS witness")
		require.NoError(t, err)
		return left == 'I', failed
	}

	for _, sql := range corpus.Control {
		out, err := ended(t, sql)
		chained := strings.Contains(strings.ToUpper(sql), "CHAIN") || strings.Contains(strings.ToUpper(sql), "BEGIN") ||
			strings.Contains(strings.ToUpper(sql), "START")
		require.True(t, out || err != nil || chained, "%q did not end the transaction", sql)
	}
	for _, sql := range corpus.Harmless {
		if strings.Contains(sql, "plan") || strings.Contains(strings.ToLower(sql), "release") {
			continue // needs what runs before it; see TestHarmlessStatements
		}
		out, _ := ended(t, sql)
		require.False(t, out, "%q ended the transaction", sql)
	}
}

func preparedTransactions(t *testing.T, ctx context.Context, conn *pgxpool.Conn) []string {
	t.Helper()
	rows, err := conn.Query(ctx, "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

// FuzzIsTxControl hides text in every place of SQL that is not read as a statement: it must not be
// found there, and a control statement behind it must.
func FuzzIsTxControl(f *testing.F) {
	for _, sql := range append(append([]string{}, corpus.Control...), corpus.Harmless...) {
		f.Add(sql, "a", uint8(0))
		f.Add("; commit; "+sql, "_", uint8(7))
	}
	controls := []string{"COMMIT", "end", "/**/ROLLBACK", "abort--", "BEGIN", " start transaction", "prepare transaction 'x'", "ROLLBACK AND CHAIN"}

	f.Fuzz(func(t *testing.T, text, tag string, pick uint8) {
		sqllex.IsTxControl(text) // must come back

		control := controls[int(pick)%len(controls)]
		for name, sql := range hidings(text, tag) {
			require.False(t, sqllex.IsTxControl(sql), "%s: %q", name, sql)
			require.True(t, sqllex.IsTxControl(sql+"\n;"+control), "%s: %q before %q", name, sql, control)
			require.True(t, sqllex.IsTxControl("SELECT 1;"+sql+"\n;SELECT 2;"+control+"; SELECT 3"), "%s: %q before %q", name, sql, control)
		}
	})
}

// hidings puts text where the server does not read it as SQL.
func hidings(text, tag string) map[string]string {
	double := func(s, quote string) string { return strings.ReplaceAll(s, quote, quote+quote) }
	uncommented := strings.NewReplacer("*", "", "/", "").Replace(text)
	oneLine := strings.NewReplacer("\n", "", "\r", "").Replace(text)
	tag = strings.Map(func(r rune) rune {
		if r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r >= 0x80 && r != 0xfffd {
			return r
		}
		return -1
	}, tag)
	dollar := "$" + tag + "$"
	undollared := strings.ReplaceAll(text, "$", "")
	return map[string]string{
		"string":        "SELECT '" + double(text, "'") + "'",
		"escape string": "SELECT E'" + double(strings.ReplaceAll(text, `\`, `\\`), "'") + "'",
		"backslashed":   "SELECT e'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'",
		"continued":     "SELECT E'a'\n'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'",
		"identifier":    `SELECT 1 AS "` + double(text, `"`) + `"`,
		"comment":       "SELECT 1 /*" + uncommented + "*/",
		"nested":        "SELECT 1 /*/*" + uncommented + "*/" + uncommented + "*/",
		"line":          "SELECT 1 --" + oneLine,
		"dollar":        "SELECT " + dollar + undollared + dollar,
		"in front":      "/*" + uncommented + "*/ SELECT 1",
		"line in front": "--" + oneLine + "\nSELECT 1",
	}
}
