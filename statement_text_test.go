package dedup

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// takenTexts are statements that Postgres runs by themselves, with the row that
// each gives and how many rows of t it leaves with a negative n. They find
// t (n int, s text) with the row (1, 'one'). A row of "" is any.
var takenTexts = []struct {
	sql  string
	args []any
	row  string
	left int
}{
	// Each verb.
	{sql: `SELECT 1 AS a`, row: `{"a":1}`},
	{sql: `select 1 as a`, row: `{"a":1}`},
	{sql: `VALUES (1, 'x')`, row: `{"column1":1,"column2":"x"}`},
	{sql: `TABLE t`, row: `{"n":1,"s":"one"}`},
	{sql: `INSERT INTO t VALUES (-1, 'a') RETURNING n, s`, row: `{"n":-1,"s":"a"}`, left: 1},
	{sql: `INSERT INTO t SELECT -1, 'a' RETURNING *`, row: `{"n":-1,"s":"a"}`, left: 1},
	{sql: `INSERT INTO t DEFAULT VALUES RETURNING *`, row: `{"n":null,"s":null}`},
	{sql: `INSERT INTO t AS target (n) VALUES (-1) RETURNING target.n AS effect`, row: `{"effect":-1}`, left: 1},
	{sql: `UPDATE t SET n = -1 RETURNING *`, row: `{"n":-1,"s":"one"}`, left: 1},
	{sql: `UPDATE t SET n = -x.n FROM (SELECT 1 AS n) x WHERE t.n = x.n RETURNING t.n`, row: `{"n":-1}`, left: 1},
	{sql: `DELETE FROM t RETURNING n`, row: `{"n":1}`},
	{sql: `DELETE FROM t returning(n)`, row: `{"n":1}`},
	{sql: `INSERT INTO t SELECT -1 AS returning RETURNING n AS returning`, row: `{"returning":-1}`, left: 1},
	{sql: `DELETE FROM t USING (VALUES (1)) v(n) WHERE t.n = v.n RETURNING t.s`, row: `{"s":"one"}`},
	{sql: `SELECT leave(-1) AS a`, row: `{"a":-1}`, left: 1},
	{sql: `SELECT * FROM leave(-1)`, row: `{"leave":-1}`, left: 1},
	{sql: `SELECT count(*) FROM (SELECT leave(-i) FROM generate_series(1, 3) i) x`, row: `{"count":3}`, left: 3},
	{sql: `SELECT * FROM t FOR UPDATE`, row: `{"n":1,"s":"one"}`},
	{sql: `SELECT n FROM t UNION ALL SELECT 2 ORDER BY 1 LIMIT 1`, row: `{"n":1}`},
	{sql: `(SELECT 1 AS a)`, row: `{"a":1}`},
	{sql: `((SELECT 1 AS a))`, row: `{"a":1}`},
	{sql: `(SELECT 1 AS a) UNION (SELECT 1)`, row: `{"a":1}`},
	{sql: `(VALUES (1))`, row: `{"column1":1}`},
	{sql: `SELECT`, row: `{}`},
	{sql: `SELECT NULL AS a, NULL::int AS b`, row: `{"a":null,"b":null}`},
	{sql: `SELECT FROM t`, row: `{}`},

	// WITH of its own.
	{sql: `WITH a AS (SELECT 1 AS a) SELECT * FROM a`, row: `{"a":1}`},
	{sql: `WITH a AS (INSERT INTO t VALUES (-1) RETURNING n) SELECT n FROM a`, row: `{"n":-1}`, left: 1},
	{sql: `WITH a AS (INSERT INTO t VALUES (-1)) SELECT 1 AS a`, row: `{"a":1}`, left: 1},
	{sql: `WITH a AS (INSERT INTO t VALUES (-1) RETURNING n), b AS (INSERT INTO t SELECT n - 1 FROM a RETURNING n) INSERT INTO t SELECT n - 1 FROM b RETURNING n`, row: `{"n":-3}`, left: 3},
	{sql: `WITH a AS (DELETE FROM t RETURNING n) UPDATE t SET s = 'x' WHERE false RETURNING (SELECT n FROM a)`, row: noRow},
	{sql: `with recursive c(i) as (select 1 union all select i + 1 from c where i < 3) select sum(i) as a from c`, row: `{"a":6}`},
	{sql: `WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < 3), d AS (INSERT INTO t SELECT -i FROM c RETURNING n) SELECT count(*) FROM d`, row: `{"count":3}`, left: 3},
	{sql: `WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < 3) SEARCH DEPTH FIRST BY i SET o SELECT max(i) AS a FROM c`, row: `{"a":3}`},
	{sql: `WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT 1 FROM c) CYCLE i SET again USING path SELECT count(*) AS a FROM c`, row: `{"a":2}`},
	{sql: `WITH RECURSIVE c AS (SELECT 1 AS i, 2 AS set UNION ALL SELECT 1, 2 FROM c) CYCLE i, set SET update TO 'y' DEFAULT 'n' USING insert (SELECT count(*) AS a FROM c)`, row: `{"a":2}`},
	{sql: `WITH a (b, c) AS (VALUES (1, 2)) SELECT b + c AS a FROM a`, row: `{"a":3}`},
	{sql: `WITH a AS MATERIALIZED (SELECT 1 AS a), b AS NOT MATERIALIZED (SELECT * FROM a) SELECT * FROM b`, row: `{"a":1}`},
	{sql: `WITH update AS (SELECT 1 AS a), insert (a) AS (SELECT 2), values AS (SELECT 3 AS a) SELECT u.a + i.a + v.a AS a FROM update u, insert i, values v`, row: `{"a":6}`},
	{sql: `WITH a AS (SELECT 1 AS a) (SELECT a FROM a)`, row: `{"a":1}`},
	{sql: `WITH a AS (WITH b AS (SELECT 1 AS a) SELECT * FROM b) VALUES ((SELECT a FROM a))`, row: `{"column1":1}`},
	{sql: `WITH effect AS (SELECT 1 AS n), gate AS (SELECT true AS open) SELECT effect.n, gate.open FROM effect, gate`, row: `{"n":1,"open":true}`},
	{sql: `WITH a AS (SELECT 1 AS a) TABLE a`, row: `{"a":1}`},
	{sql: "WITH/**/a/**/AS/**/(SELECT 1 AS a)/* ) SELECT */SELECT a FROM a", row: `{"a":1}`},
	{sql: `WITH "a ) SELECT" AS (SELECT 1 AS a) SELECT a FROM "a ) SELECT"`, row: `{"a":1}`},

	// What hides semicolons, dollars, parentheses and keywords.
	{sql: `SELECT ';' AS a`, row: `{"a":";"}`},
	{sql: `SELECT ')' AS a`, row: `{"a":")"}`},
	{sql: `SELECT '(' AS a`, row: `{"a":"("}`},
	{sql: `SELECT '$1 $0 $9' AS a`, row: `{"a":"$1 $0 $9"}`},
	{sql: `SELECT '''; DROP TABLE t; --' AS a`, row: `{"a":"'; DROP TABLE t; --"}`},
	{sql: `SELECT '\' AS a`, row: `{"a":"\\"}`},
	{sql: `SELECT E'\'); COMMIT; --' AS a`, row: `{"a":"'); COMMIT; --"}`},
	{sql: `SELECT e'\\' AS a, ')' AS b`, row: `{"a":"\\","b":")"}`},
	{sql: "SELECT E'a'\n'\\'); --' AS a", row: `{"a":"a'); --"}`},
	{sql: "SELECT 'a' -- ';\n ');' AS a", row: `{"a":"a);"}`},
	{sql: `SELECT U&'\0029;' AS a`, row: `{"a":");"}`},
	{sql: `SELECT B'1' AS a, X'F' AS b, N');' AS c`, row: `{"a":"1","b":"1111","c":");"}`},
	{sql: `SELECT $$);'"--$$ AS a`, row: `{"a":");'\"--"}`},
	{sql: `SELECT $x$); $$ $1 $y$ $x$ AS a`, row: `{"a":"); $$ $1 $y$ "}`},
	{sql: `SELECT $über$);$über$ AS a`, row: `{"a":");"}`},
	{sql: confusesPgx, row: `{"a$b$":1}`},
	{sql: `SELECT 1 AS ");"`, row: `{");":1}`},
	{sql: `SELECT 1 AS "a"");"`, row: `{"a\");":1}`},
	{sql: `SELECT 1 AS a -- );`, row: `{"a":1}`},
	{sql: "SELECT 1 AS a -- );\r\n", row: `{"a":1}`},
	{sql: `SELECT 1 /* ); /* ( ' */ " $$ */ AS a`, row: `{"a":1}`},
	{sql: `SELECT 5 */* ) */ 2 AS a`, row: `{"a":10}`},
	{sql: `SELECT 3 - -1 AS a`, row: `{"a":4}`},
	{sql: `SELECT (ARRAY[1, 2])[1] AS a`, row: `{"a":1}`},
	{sql: `SELECT '✓ 🚀 ）' AS "ключ"`, row: `{"ключ":"✓ 🚀 ）"}`},

	// What stands around it.
	{sql: "  \n\t/* first */ -- then\n SELECT 1 AS a", row: `{"a":1}`},
	{sql: `; ; SELECT 1 AS a`, row: `{"a":1}`},
	{sql: `SELECT 1 AS a;`, row: `{"a":1}`},
	{sql: `SELECT 1 AS a ; ; ; `, row: `{"a":1}`},
	{sql: "SELECT 1 AS a; -- done", row: `{"a":1}`},
	{sql: "SELECT 1 AS a /* ; */ ; /* done ; */", row: `{"a":1}`},

	// Parameters.
	{sql: `SELECT $1::int AS a`, args: []any{7}, row: `{"a":7}`},
	{sql: `SELECT $2::int - $1::int AS a`, args: []any{1, 3}, row: `{"a":2}`},
	{sql: `SELECT $1::text || $1::text AS a`, args: []any{"x"}, row: `{"a":"xx"}`},
	{sql: `INSERT INTO t VALUES ($1, $2) RETURNING *`, args: []any{-4, "it's"}, row: `{"n":-4,"s":"it's"}`, left: 1},
	{sql: `WITH a AS (SELECT $3::int AS c) SELECT $1::int + $2::int + c AS a FROM a`, args: []any{1, 2, 3}, row: `{"a":6}`},
	{sql: `SELECT $1::int+$2::int AS a--$3`, args: []any{1, 2}, row: `{"a":3}`},
	{sql: `SELECT $1::text AS a`, args: []any{nil}, row: `{"a":null}`},
	{sql: `SELECT $1::text AS a, $2::bigint AS b`, args: []any{"); DROP TABLE t; --", int64(9007199254740993)}, row: `{"a":"); DROP TABLE t; --","b":9007199254740993}`},
	{sql: `SELECT @b::int - @a::int AS a`, args: []any{pgx.NamedArgs{"a": 1, "b": 3}}, row: `{"a":2}`},
	{sql: `SELECT @a::int AS a, '@b' AS b`, args: []any{pgx.NamedArgs{"a": 1, "c": 3}}, row: `{"a":1,"b":"@b"}`},
	{sql: `SELECT @missing::int AS a`, args: []any{pgx.NamedArgs{}}, row: `{"a":null}`},
	{sql: `SELECT @a::int AS a`, args: []any{pgx.StrictNamedArgs{"a": 1}}, row: `{"a":1}`},
}

// confusesPgx has pgx 5.12.0 take a name for a dollar quote in simple_protocol, so
// that it finds no parameter behind it. It says so before it sends anything.
const confusesPgx = `SELECT 1 AS a$b$`

// noRow is the row of a statement that gives none.
const noRow = "none"

// refusedTexts are refused before anything is sent.
var refusedTexts = []struct {
	sql  string
	args []any
	says string
}{
	{sql: ``, says: "empty"},
	{sql: ` ;; `, says: "empty"},
	{sql: `-- nothing`, says: "empty"},
	{sql: `/* nothing */`, says: "empty"},
	{sql: `SELECT 1; SELECT 2`, says: "more than one"},
	{sql: `SELECT 1; COMMIT`, says: "more than one"},
	{sql: "SELECT 1;/**/;--\n;SELECT 2", says: "more than one"},
	{sql: `SELECT '\'; COMMIT; --'`, says: "more than one"},
	{sql: `SELECT $$a$$; SELECT 2`, says: "more than one"},
	{sql: `SELECT 1)`, says: "closes"},
	{sql: `SELECT 1) SELECT (2`, says: "closes"},
	{sql: `) SELECT 1 (`, says: "closes"},
	{sql: `SELECT 1), more AS (SELECT 2`, says: "closes"},
	{sql: `SELECT (1`, says: "opens a parenthesis"},
	{sql: `SELECT (1;`, says: "opens a parenthesis"},
	{sql: `SELECT (1; SELECT 2)`, says: "between parentheses"},
	{sql: `SELECT (1; /**/; -- ;
 )`, says: "between parentheses"},
	{sql: `(`, says: "opens a parenthesis"},
	{sql: `SELECT 'open`, says: "does not end"},
	{sql: `SELECT 'open''`, says: "does not end"},
	{sql: `SELECT E'open\'`, says: "does not end"},
	{sql: `SELECT "open`, says: "does not end"},
	{sql: `SELECT $$open`, says: "does not end"},
	{sql: `SELECT $a$open$b$`, says: "does not end"},
	{sql: `SELECT 1 /* open`, says: "does not end"},
	{sql: `SELECT 1 /* open /* */`, says: "does not end"},
	{sql: `/* open`, says: "empty"},
	{sql: `CREATE TABLE x ()`, says: "CREATE"},
	{sql: `DO $$BEGIN END$$`, says: "DO"},
	{sql: `CALL p()`, says: "CALL"},
	{sql: `SET x = 1`, says: "SET"},
	{sql: `COPY t TO STDOUT`, says: "COPY"},
	{sql: `EXPLAIN SELECT 1`, says: "EXPLAIN"},
	{sql: `BEGIN`, says: "BEGIN"},
	{sql: `COMMIT`, says: "COMMIT"},
	{sql: `/**/ rollback`, says: "ROLLBACK"},
	{sql: `PREPARE x AS SELECT 1`, says: "PREPARE"},
	{sql: `EXECUTE x`, says: "EXECUTE"},
	{sql: `SHOW all`, says: "SHOW"},
	{sql: `LISTEN x`, says: "LISTEN"},
	{sql: `"SELECT" 1`, says: "begins with"},
	{sql: `'SELECT' 1`, says: "begins with"},
	{sql: `1`, says: "begins with"},
	{sql: `INSERT INTO t VALUES (1)`, says: `is an INSERT without a RETURNING, so that it returns no row; add RETURNING`},
	{sql: `update t set n = 2 -- returning n`, says: `an UPDATE without a RETURNING`},
	{sql: `DELETE FROM t WHERE s = 'RETURNING'`, says: `a DELETE without a RETURNING`},
	{sql: `MERGE INTO t USING t u ON false WHEN NOT MATCHED THEN DO NOTHING`, says: `a MERGE without a RETURNING`},
	{sql: `INSERT INTO t SELECT n AS returning FROM t`, says: `an INSERT without`},
	{sql: `INSERT INTO t SELECT u.returning FROM u`, says: `an INSERT without`},
	{sql: `INSERT INTO t ("returning") VALUES (1)`, says: `an INSERT without`},
	{sql: `WITH a AS (DELETE FROM t RETURNING n) INSERT INTO t SELECT n FROM a`, says: `an INSERT without`},
	{sql: `WITH`, says: "nothing after"},
	{sql: `WITH a AS (SELECT 1)`, says: "nothing after"},
	{sql: `WITH a AS (SELECT 1) CREATE TABLE x ()`, says: "nothing after"},
	{sql: `WITH SELECT 1`, says: "nothing after"},
	{sql: `SELECT $0`, says: "$0"},
	{sql: `SELECT $00`, says: "$00"},
	{sql: `SELECT $65536`, says: "$65536"},
	{sql: `SELECT $65530`, says: "at most"},
	{sql: `SELECT $9223372036854775807`, says: "$9223372036854775807"},
	{sql: `SELECT $99999999999999999999`, says: "$99999999999999999999"},
	{sql: `SELECT $1::int`, says: "1 parameters and 0 arguments"},
	{sql: `SELECT $1::int`, args: []any{1, 2}, says: "1 parameters and 2 arguments"},
	{sql: `SELECT $3::int`, args: []any{1}, says: "3 parameters and 1 arguments"},
	{sql: `SELECT 1`, args: []any{1}, says: "0 parameters and 1 arguments"},
	{sql: `SELECT '$1'`, args: []any{1}, says: "0 parameters and 1 arguments"},
	{sql: `SELECT @a::int`, args: []any{pgx.StrictNamedArgs{}}, says: "rewritten"},
	{sql: "SELECT 1 \x00) SELECT 2", says: "zero byte"},
	{sql: "SELECT '\x00'", says: "zero byte"},
}

// textRow is how a statement's row arrives: byte for byte.
type textRow = json.RawMessage

// TestStatementTexts runs every text that is taken, as one statement with its
// record and apart, and compares what it gives and leaves.
func TestStatementTexts(t *testing.T) {
	t.Parallel()

	require.Greater(t, len(takenTexts)+len(refusedTexts), 120)
	for name, separate := range map[string]bool{"Whole": false, "Separate": true} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			t.Run(name+"-"+mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				pool := pgtest.New(t).Pool(t, func(config *pgxpool.Config) { config.ConnConfig.DefaultQueryExecMode = mode })
				for _, sql := range []string{
					`CREATE TABLE t (n int, s text)`,
					`CREATE FUNCTION leave(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (n) RETURNING n'`,
				} {
					_, err := pool.Exec(ctx, sql)
					require.NoError(t, err)
				}
				d, err := New(pool, &Options{SeparateStatements: separate})
				require.NoError(t, err)
				for i, c := range takenTexts {
					_, err := pool.Exec(ctx, `WITH gone AS (DELETE FROM t) INSERT INTO t VALUES (1, 'one')`)
					require.NoError(t, err)
					call := Call{Scope: "s", Tool: "t", Key: fmt.Sprint(i)}
					result, err := DoStatement[textRow](ctx, d, call, SQL(c.sql, c.args...))
					if c.row == noRow {
						require.ErrorIs(t, err, pgx.ErrNoRows, c.sql)
						continue
					}
					require.NoError(t, err, c.sql)
					require.Equal(t, c.row, string(result.Value), c.sql)
					if c.sql != confusesPgx || mode != pgx.QueryExecModeSimpleProtocol {
						require.Equal(t, 1, result.Attempts, c.sql)
					}
					var left int
					require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM t WHERE n < 0`).Scan(&left))
					require.Equal(t, c.left, left, c.sql)

					again, err := DoStatement[textRow](ctx, d, call, SQL(c.sql, c.args...))
					require.NoError(t, err, c.sql)
					require.True(t, again.Replayed, c.sql)
					require.Equal(t, c.row, string(again.Value), c.sql)
					require.NoError(t, pool.QueryRow(ctx, `SELECT count(*) FROM t WHERE n < 0`).Scan(&left))
					require.Equal(t, c.left, left, "after the replay of %s", c.sql)
				}
			})
		}
	}
}

// TestStatementTextsRefused uses a pool that leads nowhere.
func TestStatementTextsRefused(t *testing.T) {
	t.Parallel()

	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing?sslmode=disable")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := New(pool, nil)
	require.NoError(t, err)
	for _, c := range refusedTexts {
		_, err := DoStatement[textRow](t.Context(), d, Call{Scope: "s", Tool: "t", Key: "k"}, SQL(c.sql, c.args...))
		var invalid *InvalidCallError
		require.ErrorAs(t, err, &invalid, c.sql)
		require.Equal(t, "Statement", invalid.Field, c.sql)
		require.ErrorContains(t, err, c.says, c.sql)
	}
	require.Zero(t, pool.Stat().NewConnsCount())
	require.Zero(t, pool.Stat().AcquireCount())
}

// TestStatementTextsAreForgotten puts values into texts.
func TestStatementTextsAreForgotten(t *testing.T) {
	t.Parallel()

	texts := statementTexts{table: "t"}
	for i := range 3 * maxStatementTexts {
		_, err := texts.of(t.Context(), SQL(fmt.Sprint("SELECT ", i)))
		require.NoError(t, err)
		require.LessOrEqual(t, len(texts.m), maxStatementTexts)
	}
	a, err := texts.of(t.Context(), SQL("SELECT 1"))
	require.NoError(t, err)
	b, err := texts.of(t.Context(), SQL("SELECT 1"))
	require.NoError(t, err)
	require.Same(t, a.statementText, b.statementText)
}

// FuzzAsWith: what is taken can neither leave the WITH query that it stands in nor
// run on behind it. It is read by independent rules.
func FuzzAsWith(f *testing.F) {
	for _, c := range takenTexts {
		f.Add(c.sql)
	}
	for _, c := range refusedTexts {
		f.Add(c.sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		with, params, err := asWith(sql)
		if err != nil {
			var invalid *InvalidCallError
			require.ErrorAs(t, err, &invalid)
			return
		}
		require.GreaterOrEqual(t, params, 0)
		require.LessOrEqual(t, params, maxPostgresParams)
		const marker = "tool_dedup_effect AS (\n"
		require.Contains(t, with, marker)
		require.True(t, strings.HasSuffix(with, "\n)"))

		rest, most, ok := plainSQL(with + "\nSELECT marker")
		require.True(t, ok, "something is left open in %q", with)
		require.LessOrEqual(t, most, params, "parameters of %q", with)
		require.NotContains(t, rest, ";")
		inside := outermost(t, rest)
		require.True(t, strings.HasSuffix(inside, "()\nSELECT marker"), "%q", inside)
	})
}

// outermost removes what stands between parentheses, which must be balanced.
func outermost(t *testing.T, sql string) string {
	var out strings.Builder
	depth := 0
	for _, c := range []byte(sql) {
		switch c {
		case ')':
			depth--
			require.GreaterOrEqual(t, depth, 0, "%q", sql)
		}
		if depth == 0 {
			out.WriteByte(c)
		}
		if c == '(' {
			depth++
		}
	}
	require.Zero(t, depth, "%q", sql)
	return out.String()
}
