package dedup

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
)

// controlSpellings must be refused: each begins or ends a transaction, or would
// if the server took it.
var controlSpellings = []string{
	// The statements, in all their forms.
	"COMMIT",
	"COMMIT WORK",
	"COMMIT TRANSACTION",
	"COMMIT AND CHAIN",
	"COMMIT AND NO CHAIN",
	"COMMIT WORK AND CHAIN",
	"END",
	"END WORK",
	"END TRANSACTION",
	"END AND CHAIN",
	"ROLLBACK",
	"ROLLBACK WORK",
	"ROLLBACK TRANSACTION",
	"ROLLBACK AND CHAIN",
	"ROLLBACK WORK AND NO CHAIN",
	"ABORT",
	"ABORT WORK",
	"ABORT TRANSACTION",
	"ABORT AND CHAIN",
	"BEGIN",
	"BEGIN WORK",
	"BEGIN TRANSACTION",
	"BEGIN ISOLATION LEVEL SERIALIZABLE",
	"BEGIN READ ONLY",
	"START TRANSACTION",
	"START TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
	"PREPARE TRANSACTION 'x'",
	"prepare/**/transaction'x'",
	"COMMIT PREPARED 'x'",
	"ROLLBACK PREPARED 'x'",
	// Case.
	"commit",
	"CoMmIt",
	"rOLLBACK",
	"bEgIn",
	"aBORT",
	"Start\tTransaction",
	"Prepare\nTransaction 'x'",
	// White space and empty statements in front and behind.
	" commit",
	"\tcommit",
	"\ncommit",
	"\r\ncommit\r\n",
	"\fcommit",
	" \t\r\n\f commit \t\r\n\f ;",
	";commit",
	";;; ;commit",
	" ; \n ; commit;",
	"commit;",
	"commit;;;",
	// Comments.
	"--\ncommit",
	"-- commit\ncommit",
	"--\rcommit",
	"/**/commit",
	"/* a */ /* b */commit",
	"/* /* nested */ still */commit",
	"/*/**/*/commit",
	"/* ; -- */commit",
	"/* ' */commit",
	"-- '\ncommit",
	"-- /*\ncommit",
	"commit--",
	"commit/**/and/**/chain",
	"commit -- and then some",
	"rollback/**/work",
	"ROLLBACK /* TO SAVEPOINT s */",
	"ROLLBACK -- TO SAVEPOINT s",
	"ROLLBACK WORK /* TO s */",
	";/**/;--\n;commit",
	// Several statements in one text.
	"SELECT 1; COMMIT",
	"SELECT 1;COMMIT",
	"SELECT 1;;COMMIT;",
	"COMMIT; BEGIN",
	"commit;begin;",
	"ROLLBACK; BEGIN; SELECT 1",
	"SELECT 1; /* */ COMMIT",
	"SELECT 1; -- \n COMMIT",
	"SELECT 1 -- ;\n; COMMIT",
	"SELECT 1 /* ; */ ; COMMIT",
	"SELECT 1 /* ' */ ; COMMIT --'",
	"SELECT 1 -- '\n; COMMIT --'",
	"SELECT 1 /* /* */ ' */; COMMIT --'",
	"SAVEPOINT s; ROLLBACK TO s; COMMIT",
	"SAVEPOINT s; RELEASE s; ROLLBACK",
	// Behind quotes.
	"SELECT ''; COMMIT",
	"SELECT 'a'; COMMIT",
	"SELECT ';'; COMMIT",
	"SELECT 'it''s'; COMMIT",
	"SELECT ''''; COMMIT",
	"SELECT '''; '; COMMIT",
	`SELECT 'a\'; COMMIT`,
	`SELECT 'a\'; COMMIT; SELECT 'b'`,
	`SELECT '\\'; COMMIT`,
	"SELECT '--'; COMMIT",
	"SELECT '/*'; COMMIT",
	"SELECT '$$'; COMMIT",
	`SELECT E'\''; COMMIT`,
	`SELECT e'\''; COMMIT`,
	`SELECT E'\\'; COMMIT`,
	`SELECT E'\\\''; COMMIT`,
	`SELECT E'a''b\''; COMMIT; SELECT ''`,
	`SELECT (E'\''); COMMIT`,
	`SELECT date'2020-01-01'; COMMIT`,
	`SELECT B'0'; COMMIT`,
	`SELECT X'0f'; COMMIT`,
	`SELECT N'n\'; COMMIT; SELECT 'b'`,
	`SELECT U&'\0061'; COMMIT`,
	`SELECT U&'a!'  UESCAPE '!'; COMMIT`,
	"SELECT 'a'\n'b'; COMMIT",
	// Behind identifiers.
	`SELECT 1 AS ";"; COMMIT`,
	`SELECT 1 AS "a;b"; COMMIT`,
	`SELECT 1 AS "a""b"; COMMIT`,
	`SELECT 1 AS "it's"; COMMIT`,
	`SELECT 1 AS "a\"; COMMIT`,
	`SELECT 1 AS "$$"; COMMIT`,
	`SELECT 1 AS "--"; COMMIT`,
	`SELECT 1 AS x$; COMMIT`,
	`SELECT 1 AS x$a$; COMMIT; SELECT 1 AS y$a$`,
	// Behind dollar quotes.
	"SELECT $$a$$; COMMIT",
	"SELECT $$;$$; COMMIT",
	"SELECT $$'$$; COMMIT",
	"SELECT $$/*$$; COMMIT",
	"SELECT $a$;$a$; COMMIT",
	"SELECT $a$ $$ $a$; COMMIT",
	"SELECT $a$ $A$ $b$ $a$; COMMIT",
	"SELECT $ä$;$ä$; COMMIT",
	"SELECT $_1$;$_1$; COMMIT",
	"DO $$BEGIN NULL; END$$; COMMIT",
	"DO $$BEGIN PERFORM 1; END$$;COMMIT",
	// Behind operators that look like the beginning of something else.
	"SELECT 2*/**/2; COMMIT",
	"SELECT 2-/**/-2; COMMIT",
	"SELECT 4/ 2; COMMIT",
	// Where Postgres reads a name or a continued string, a reader in a hurry
	// sees the beginning of a quote.
	"SELECT 1 AS x$$$; COMMIT; SELECT 2 AS y$$$",
	"SELECT 1 AS x$$a$; COMMIT; SELECT 2 AS y$$a$",
	"SELECT E'a'\n'\\''; COMMIT; SELECT '1'",
	"SELECT E'a' -- comment\n '\\''; COMMIT; SELECT '1'",
	`SELECT typ$e'\'; COMMIT; SELECT '1'`,
}

// harmlessTexts must pass, and all of them run in controlSchema, in order.
var harmlessTexts = []string{
	"",
	";",
	" ; ; ",
	"-- commit",
	"/* commit */",
	"/* /* commit; */ ; commit */",
	"SELECT 1",
	"SELECT 1;",
	"SELECT 1; SELECT 2",
	"SELECT 1 -- ; commit",
	"SELECT 1 /* ; commit */",
	"SELECT 1 /* ; /* ; commit */ ; commit */",
	// Savepoints.
	"SAVEPOINT s",
	"ROLLBACK TO s",
	"ROLLBACK TO SAVEPOINT s",
	"ROLLBACK WORK TO s",
	"ROLLBACK WORK TO SAVEPOINT s",
	"ROLLBACK TRANSACTION TO SAVEPOINT s",
	"rollback/**/to/**/savepoint/**/s",
	"rollback -- commit\n to s",
	"Rollback\tTo\nSavepoint s",
	"; ROLLBACK TO s;",
	"RELEASE s",
	"SAVEPOINT s; RELEASE SAVEPOINT s",
	"SAVEPOINT commit; ROLLBACK TO commit; RELEASE commit",
	// Prepared plans.
	"PREPARE plan AS SELECT 1",
	"EXECUTE plan",
	"DEALLOCATE plan",
	"PREPARE transactions AS SELECT 1; EXECUTE transactions; DEALLOCATE transactions",
	"PREPARE plan (text) AS INSERT INTO t (a) VALUES ($1); DEALLOCATE plan",
	// Strings.
	"SELECT '; commit'",
	"SELECT ';commit;'",
	"SELECT 'it''s; commit'",
	"SELECT '''; commit; '''",
	`SELECT E'\'; commit; '`,
	`SELECT e'\\\'; commit'`,
	`SELECT (E'\'; commit')`,
	"SELECT 'a'\n'; commit'",
	`SELECT U&'; commit'`,
	"SELECT '/*; commit'",
	"SELECT '--' AS a, '; commit' AS b",
	"INSERT INTO t (a) VALUES ('BEGIN; COMMIT; END')",
	"UPDATE t SET a = '; rollback' WHERE a = 'commit'",
	"COMMENT ON TABLE t IS '; commit'",
	// Dollar quotes.
	"SELECT $$; commit$$",
	"SELECT $a$; commit; $$; commit; $a$",
	"SELECT $a$ $A$; commit; $a$",
	"SELECT $ä$; commit$ä$",
	"DO $$BEGIN PERFORM 1; END$$",
	"DO $$BEGIN IF true THEN PERFORM 1; END IF; END;$$",
	"DO $body$\nDECLARE n int;\nBEGIN\n  BEGIN n := 1; EXCEPTION WHEN others THEN NULL; END;\nEND\n$body$ LANGUAGE plpgsql",
	"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS $$SELECT 1; SELECT 2$$",
	"CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1; SELECT 2'",
	// Names.
	`SELECT "end", "begin" FROM t`,
	`SELECT 1 AS "; commit"`,
	`SELECT 1 AS "a""; commit"`,
	"SELECT 1 AS commit",
	"SELECT 1 AS x$$",
	"SELECT 1 AS x$",
	"SELECT begin FROM t",
	`INSERT INTO t ("end") VALUES (1)`,
	"UPDATE t SET \"end\" = 2",
	"SELECT commit_id FROM t",
	"SELECT start FROM t",
	"CREATE TABLE commit (a int); DROP TABLE commit",
	"CREATE TABLE begin_log (a int)",
	// Words of the language.
	"SELECT CASE WHEN true THEN 1 ELSE 2 END",
	"SELECT CASE WHEN a = '; commit' THEN 1 END FROM t",
	"SELECT CASE 1 WHEN 1 THEN 'x' END; SELECT CASE 1 WHEN 1 THEN 'x' END",
	"SELECT CASE WHEN true THEN CASE WHEN true THEN 1 END END",
	"WITH w AS (SELECT 1) SELECT * FROM w",
	"CREATE RULE r AS ON DELETE TO t DO ALSO (UPDATE t SET a = ''; UPDATE t SET a = '')",
	"SET LOCAL work_mem = '4MB'",
	"SET LOCAL statement_timeout = 0; SELECT 1",
	"SHOW transaction_isolation",
	"LOCK TABLE t IN SHARE MODE",
	"EXPLAIN SELECT 1",
	"DECLARE c CURSOR FOR SELECT 1; FETCH c; CLOSE c",
	"VALUES (1), (2)",
	"TABLE t",
	"SELECT 2*/* ; commit */2",
	"SELECT 1 WHERE 1 <> ALL (ARRAY[2])",
}

// cautiousTexts are harmless and refused all the same: telling them would take
// a parser, and the answer is loud.
var cautiousTexts = []string{
	"CREATE FUNCTION g() RETURNS int LANGUAGE sql BEGIN ATOMIC SELECT 1; END",
	"PREPARE transaction AS SELECT 1",
}

const controlSchema = `
CREATE TABLE effects (ref text NOT NULL);
CREATE TABLE t (a text, "end" int, "begin" int, start int, commit_id int);
CREATE DOMAIN typ$e AS text`

func TestIsTxControl(t *testing.T) {
	t.Parallel()

	t.Run("Counts", func(t *testing.T) {
		t.Parallel()
		require.GreaterOrEqual(t, len(controlSpellings), 60)
		require.GreaterOrEqual(t, len(harmlessTexts), 40)
	})

	for i, sql := range controlSpellings {
		t.Run(fmt.Sprintf("Refused%d", i), func(t *testing.T) {
			t.Parallel()
			require.True(t, isTxControl(sql), "%q", sql)
			require.True(t, isTxControl(sql+"\n;"), "%q with more behind it", sql)
			require.True(t, isTxControl("SELECT 1;"+sql), "%q behind a statement", sql)
		})
	}
	for i, sql := range harmlessTexts {
		t.Run(fmt.Sprintf("Harmless%d", i), func(t *testing.T) {
			t.Parallel()
			require.False(t, isTxControl(sql), "%q", sql)
			require.True(t, isTxControl(sql+"\n;COMMIT"), "%q with a COMMIT behind it", sql)
		})
	}
	for i, sql := range cautiousTexts {
		t.Run(fmt.Sprintf("Cautious%d", i), func(t *testing.T) {
			t.Parallel()
			require.True(t, isTxControl(sql), "%q", sql)
		})
	}

	t.Run("Unterminated", func(t *testing.T) {
		t.Parallel()
		for _, sql := range []string{"'", `"`, "$$", "$a$", "/*", "/*/", "--", "E'\\", "E'", "$", "$1", "$a", "SELECT '; commit", "/* ; commit", `SELECT "; commit`, "SELECT $$; commit"} {
			require.False(t, isTxControl(sql), "%q", sql)
		}
	})

	t.Run("LongTextsTakeLinearTime", func(t *testing.T) {
		t.Parallel()
		const n = 1 << 20
		for _, part := range []string{";", "'", "''", "$", "$$", "$a", "$a$", "/*", "*/", "--\n", "a;", "E'", `\`, `"`, "/**/;", "$1;", "x$$;"} {
			text := strings.Repeat(part, n/len(part))
			start := time.Now()
			isTxControl(text)
			require.Less(t, time.Since(start), 10*time.Second, "%q", part)
		}
	})
}

// TestIsTxControlAgainstServer asks the server which texts end the transaction
// that they run in: what is meant by the lists, and nothing that is missed.
func TestIsTxControlAgainstServer(t *testing.T) {
	t.Parallel()
	ctx, pool := controlPool(t, pgx.QueryExecModeSimpleProtocol)

	ended := func(t *testing.T, sql string) (bool, error) {
		conn, err := pool.Acquire(ctx)
		require.NoError(t, err)
		defer conn.Release()
		_, err = conn.Exec(ctx, "BEGIN; SAVEPOINT s; PREPARE plan AS SELECT 1; CREATE TABLE IF NOT EXISTS witness (a int)")
		require.NoError(t, err)
		_, failed := conn.Exec(ctx, sql)
		left := conn.Conn().PgConn().TxStatus()
		_, err = conn.Exec(ctx, "ROLLBACK; DEALLOCATE ALL; DROP TABLE IF EXISTS witness")
		require.NoError(t, err)
		return left == 'I', failed
	}

	for _, sql := range controlSpellings {
		out, err := ended(t, sql)
		chained := strings.Contains(strings.ToUpper(sql), "CHAIN") || strings.Contains(strings.ToUpper(sql), "BEGIN") ||
			strings.Contains(strings.ToUpper(sql), "START")
		require.True(t, out || err != nil || chained, "%q did not end the transaction", sql)
	}
	for _, sql := range harmlessTexts {
		if strings.Contains(sql, "plan") || strings.Contains(strings.ToLower(sql), "release") {
			continue // needs what runs before it; see TestHarmlessStatements
		}
		out, _ := ended(t, sql)
		require.False(t, out, "%q ended the transaction", sql)
	}
}

// TestControlIsRefused sends every spelling through an effect, in every mode.
func TestControlIsRefused(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx, pool := controlPool(t, mode)
			d, err := New(pool, nil)
			require.NoError(t, err)

			for i, sql := range controlSpellings {
				var answers []error
				_, err := Do(ctx, d, Call{Scope: "s", Tool: "t", Key: fmt.Sprint(i)}, func(ctx context.Context, tx pgx.Tx) (int, error) {
					if _, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ($1)`, sql); err != nil {
						return 0, err
					}
					answers = controlDoors(ctx, tx, sql)
					return 1, nil // the refusal is not passed on
				})
				for door, answer := range answers {
					require.ErrorIs(t, answer, ErrTxControl, "%q by door %d", sql, door)
				}
				require.Len(t, answers, 6, "%q", sql)
				require.ErrorIs(t, err, ErrTxControl, "%q", sql)
			}
			require.Zero(t, controlCount(t, ctx, pool, "effects"))
			require.Zero(t, controlCount(t, ctx, pool, "tool_dedup"))
		})
	}
}

// controlDoors sends sql by every method that takes SQL.
func controlDoors(ctx context.Context, tx pgx.Tx, sql string) []error {
	_, exec := tx.Exec(ctx, sql)
	_, simple := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	rows, query := tx.Query(ctx, sql)
	rows.Close()
	queryRow := tx.QueryRow(ctx, sql).Scan(nil)
	_, prepare := tx.Prepare(ctx, "", sql)
	b := &pgx.Batch{}
	b.Queue("SELECT 1")
	b.Queue(sql)
	batch := tx.SendBatch(ctx, b).Close()
	return []error{exec, simple, query, queryRow, prepare, batch}
}

// TestHarmlessStatements runs every harmless text through an effect.
func TestHarmlessStatements(t *testing.T) {
	t.Parallel()
	ctx, pool := controlPool(t, pgx.QueryExecModeCacheStatement)
	d, err := New(pool, nil)
	require.NoError(t, err)
	_, err = Do(ctx, d, Call{Scope: "s", Tool: "t", Key: "k"}, func(ctx context.Context, tx pgx.Tx) (int, error) {
		for _, sql := range harmlessTexts {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return 0, fmt.Errorf("%q: %w", sql, err)
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO effects (ref) VALUES ('k')`)
		return 1, err
	})
	require.NoError(t, err)
	require.Equal(t, 1, controlCount(t, ctx, pool, "effects"))
	require.Equal(t, 1, controlCount(t, ctx, pool, "tool_dedup"))
}

func controlPool(t *testing.T, mode pgx.QueryExecMode) (context.Context, *pgxpool.Pool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	pool := pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
	_, err := pool.Exec(ctx, controlSchema)
	require.NoError(t, err)
	return ctx, pool
}

func controlCount(t *testing.T, ctx context.Context, pool *pgxpool.Pool, table string) (n int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(ctx, "SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()).Scan(&n))
	return n
}

// FuzzIsTxControl hides text in every place of SQL that is not read as a
// statement: it must not be found there, and a control statement behind it must.
func FuzzIsTxControl(f *testing.F) {
	for _, sql := range append(append([]string{}, controlSpellings...), harmlessTexts...) {
		f.Add(sql, "a", uint8(0))
		f.Add("; commit; "+sql, "_", uint8(7))
	}
	controls := []string{"COMMIT", "end", "/**/ROLLBACK", "abort--", "BEGIN", " start transaction", "prepare transaction 'x'", "ROLLBACK AND CHAIN"}

	f.Fuzz(func(t *testing.T, text, tag string, pick uint8) {
		isTxControl(text) // must come back

		control := controls[int(pick)%len(controls)]
		for name, sql := range hidings(text, tag) {
			require.False(t, isTxControl(sql), "%s: %q", name, sql)
			require.True(t, isTxControl(sql+"\n;"+control), "%s: %q before %q", name, sql, control)
			require.True(t, isTxControl("SELECT 1;"+sql+"\n;SELECT 2;"+control+"; SELECT 3"), "%s: %q before %q", name, sql, control)
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
