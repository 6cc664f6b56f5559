package corpus

import "github.com/jackc/pgx/v5"

// Taken are statements that Postgres runs by themselves, with the row that
// each gives and how many rows of t it leaves with a negative n. They find
// t (n int, s text) with the row (1, 'one'). A row of "" is any.
var Taken = []struct {
	SQL  string
	Args []any
	Row  string
	Left int
}{
	// Each verb.
	{SQL: `SELECT 1 AS a`, Row: `{"a":1}`},
	{SQL: `select 1 as a`, Row: `{"a":1}`},
	{SQL: `VALUES (1, 'x')`, Row: `{"column1":1,"column2":"x"}`},
	{SQL: `TABLE t`, Row: `{"n":1,"s":"one"}`},
	{SQL: `INSERT INTO t VALUES (-1, 'a') RETURNING n, s`, Row: `{"n":-1,"s":"a"}`, Left: 1},
	{SQL: `INSERT INTO t SELECT -1, 'a' RETURNING *`, Row: `{"n":-1,"s":"a"}`, Left: 1},
	{SQL: `INSERT INTO t DEFAULT VALUES RETURNING *`, Row: `{"n":null,"s":null}`},
	{SQL: `INSERT INTO t AS target (n) VALUES (-1) RETURNING target.n AS effect`, Row: `{"effect":-1}`, Left: 1},
	{SQL: `UPDATE t SET n = -1 RETURNING *`, Row: `{"n":-1,"s":"one"}`, Left: 1},
	{SQL: `UPDATE t SET n = -x.n FROM (SELECT 1 AS n) x WHERE t.n = x.n RETURNING t.n`, Row: `{"n":-1}`, Left: 1},
	{SQL: `DELETE FROM t RETURNING n`, Row: `{"n":1}`},
	{SQL: `DELETE FROM t returning(n)`, Row: `{"n":1}`},
	{SQL: `INSERT INTO t SELECT -1 AS returning RETURNING n AS returning`, Row: `{"returning":-1}`, Left: 1},
	{SQL: `DELETE FROM t USING (VALUES (1)) v(n) WHERE t.n = v.n RETURNING t.s`, Row: `{"s":"one"}`},
	{SQL: `SELECT leave(-1) AS a`, Row: `{"a":-1}`, Left: 1},
	{SQL: `SELECT * FROM leave(-1)`, Row: `{"leave":-1}`, Left: 1},
	{SQL: `SELECT count(*) FROM (SELECT leave(-i) FROM generate_series(1, 3) i) x`, Row: `{"count":3}`, Left: 3},
	{SQL: `SELECT * FROM t FOR UPDATE`, Row: `{"n":1,"s":"one"}`},
	{SQL: `SELECT n FROM t UNION ALL SELECT 2 ORDER BY 1 LIMIT 1`, Row: `{"n":1}`},
	{SQL: `(SELECT 1 AS a)`, Row: `{"a":1}`},
	{SQL: `((SELECT 1 AS a))`, Row: `{"a":1}`},
	{SQL: `(SELECT 1 AS a) UNION (SELECT 1)`, Row: `{"a":1}`},
	{SQL: `(VALUES (1))`, Row: `{"column1":1}`},
	{SQL: `SELECT`, Row: `{}`},
	{SQL: `SELECT NULL AS a, NULL::int AS b`, Row: `{"a":null,"b":null}`},
	{SQL: `SELECT FROM t`, Row: `{}`},

	// WITH of its own.
	{SQL: `WITH a AS (SELECT 1 AS a) SELECT * FROM a`, Row: `{"a":1}`},
	{SQL: `WITH a AS (INSERT INTO t VALUES (-1) RETURNING n) SELECT n FROM a`, Row: `{"n":-1}`, Left: 1},
	{SQL: `WITH a AS (INSERT INTO t VALUES (-1)) SELECT 1 AS a`, Row: `{"a":1}`, Left: 1},
	{SQL: `WITH a AS (INSERT INTO t VALUES (-1) RETURNING n), b AS (INSERT INTO t SELECT n - 1 FROM a RETURNING n) INSERT INTO t SELECT n - 1 FROM b RETURNING n`, Row: `{"n":-3}`, Left: 3},
	{SQL: `WITH a AS (DELETE FROM t RETURNING n) UPDATE t SET s = 'x' WHERE false RETURNING (SELECT n FROM a)`, Row: NoRow},
	{SQL: `with recursive c(i) as (select 1 union all select i + 1 from c where i < 3) select sum(i) as a from c`, Row: `{"a":6}`},
	{SQL: `WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < 3), d AS (INSERT INTO t SELECT -i FROM c RETURNING n) SELECT count(*) FROM d`, Row: `{"count":3}`, Left: 3},
	{SQL: `WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM c WHERE i < 3) SEARCH DEPTH FIRST BY i SET o SELECT max(i) AS a FROM c`, Row: `{"a":3}`},
	{SQL: `WITH RECURSIVE c AS (SELECT 1 AS i UNION ALL SELECT 1 FROM c) CYCLE i SET again USING path SELECT count(*) AS a FROM c`, Row: `{"a":2}`},
	{SQL: `WITH RECURSIVE c AS (SELECT 1 AS i, 2 AS set UNION ALL SELECT 1, 2 FROM c) CYCLE i, set SET update TO 'y' DEFAULT 'n' USING insert (SELECT count(*) AS a FROM c)`, Row: `{"a":2}`},
	{SQL: `WITH a (b, c) AS (VALUES (1, 2)) SELECT b + c AS a FROM a`, Row: `{"a":3}`},
	{SQL: `WITH a AS MATERIALIZED (SELECT 1 AS a), b AS NOT MATERIALIZED (SELECT * FROM a) SELECT * FROM b`, Row: `{"a":1}`},
	{SQL: `WITH update AS (SELECT 1 AS a), insert (a) AS (SELECT 2), values AS (SELECT 3 AS a) SELECT u.a + i.a + v.a AS a FROM update u, insert i, values v`, Row: `{"a":6}`},
	{SQL: `WITH a AS (SELECT 1 AS a) (SELECT a FROM a)`, Row: `{"a":1}`},
	{SQL: `WITH a AS (WITH b AS (SELECT 1 AS a) SELECT * FROM b) VALUES ((SELECT a FROM a))`, Row: `{"column1":1}`},
	{SQL: `WITH effect AS (SELECT 1 AS n), gate AS (SELECT true AS open) SELECT effect.n, gate.open FROM effect, gate`, Row: `{"n":1,"open":true}`},
	{SQL: `WITH a AS (SELECT 1 AS a) TABLE a`, Row: `{"a":1}`},
	{SQL: "WITH/**/a/**/AS/**/(SELECT 1 AS a)/* ) SELECT */SELECT a FROM a", Row: `{"a":1}`},
	{SQL: `WITH "a ) SELECT" AS (SELECT 1 AS a) SELECT a FROM "a ) SELECT"`, Row: `{"a":1}`},

	// What hides semicolons, dollars, parentheses and keywords.
	{SQL: `SELECT ';' AS a`, Row: `{"a":";"}`},
	{SQL: `SELECT ')' AS a`, Row: `{"a":")"}`},
	{SQL: `SELECT '(' AS a`, Row: `{"a":"("}`},
	{SQL: `SELECT '$1 $0 $9' AS a`, Row: `{"a":"$1 $0 $9"}`},
	{SQL: `SELECT '''; DROP TABLE t; --' AS a`, Row: `{"a":"'; DROP TABLE t; --"}`},
	{SQL: `SELECT '\' AS a`, Row: `{"a":"\\"}`},
	{SQL: `SELECT E'\'); COMMIT; --' AS a`, Row: `{"a":"'); COMMIT; --"}`},
	{SQL: `SELECT e'\\' AS a, ')' AS b`, Row: `{"a":"\\","b":")"}`},
	{SQL: "SELECT E'a'\n'\\'); --' AS a", Row: `{"a":"a'); --"}`},
	{SQL: "SELECT 'a' -- ';\n ');' AS a", Row: `{"a":"a);"}`},
	{SQL: `SELECT U&'\0029;' AS a`, Row: `{"a":");"}`},
	{SQL: `SELECT B'1' AS a, X'F' AS b, N');' AS c`, Row: `{"a":"1","b":"1111","c":");"}`},
	{SQL: `SELECT $$);'"--$$ AS a`, Row: `{"a":");'\"--"}`},
	{SQL: `SELECT $x$); $$ $1 $y$ $x$ AS a`, Row: `{"a":"); $$ $1 $y$ "}`},
	{SQL: `SELECT $über$);$über$ AS a`, Row: `{"a":");"}`},
	{SQL: ConfusesPgx, Row: `{"a$b$":1}`},
	{SQL: `SELECT 1 AS ");"`, Row: `{");":1}`},
	{SQL: `SELECT 1 AS "a"");"`, Row: `{"a\");":1}`},
	{SQL: `SELECT 1 AS a -- );`, Row: `{"a":1}`},
	{SQL: "SELECT 1 AS a -- );\r\n", Row: `{"a":1}`},
	{SQL: `SELECT 1 /* ); /* ( ' */ " $$ */ AS a`, Row: `{"a":1}`},
	{SQL: `SELECT 5 */* ) */ 2 AS a`, Row: `{"a":10}`},
	{SQL: `SELECT 3 - -1 AS a`, Row: `{"a":4}`},
	{SQL: `SELECT (ARRAY[1, 2])[1] AS a`, Row: `{"a":1}`},
	{SQL: `SELECT '✓ 🚀 ）' AS "ключ"`, Row: `{"ключ":"✓ 🚀 ）"}`},

	// What stands around it.
	{SQL: "  \n\t/* first */ -- then\n SELECT 1 AS a", Row: `{"a":1}`},
	{SQL: `; ; SELECT 1 AS a`, Row: `{"a":1}`},
	{SQL: `SELECT 1 AS a;`, Row: `{"a":1}`},
	{SQL: `SELECT 1 AS a ; ; ; `, Row: `{"a":1}`},
	{SQL: "SELECT 1 AS a; -- done", Row: `{"a":1}`},
	{SQL: "SELECT 1 AS a /* ; */ ; /* done ; */", Row: `{"a":1}`},

	// Parameters.
	{SQL: `SELECT $1::int AS a`, Args: []any{7}, Row: `{"a":7}`},
	{SQL: `SELECT $2::int - $1::int AS a`, Args: []any{1, 3}, Row: `{"a":2}`},
	{SQL: `SELECT $1::text || $1::text AS a`, Args: []any{"x"}, Row: `{"a":"xx"}`},
	{SQL: `INSERT INTO t VALUES ($1, $2) RETURNING *`, Args: []any{-4, "it's"}, Row: `{"n":-4,"s":"it's"}`, Left: 1},
	{SQL: `WITH a AS (SELECT $3::int AS c) SELECT $1::int + $2::int + c AS a FROM a`, Args: []any{1, 2, 3}, Row: `{"a":6}`},
	{SQL: `SELECT $1::int+$2::int AS a--$3`, Args: []any{1, 2}, Row: `{"a":3}`},
	{SQL: `SELECT $1::text AS a`, Args: []any{nil}, Row: `{"a":null}`},
	{SQL: `SELECT $1::text AS a, $2::bigint AS b`, Args: []any{"); DROP TABLE t; --", int64(9007199254740993)}, Row: `{"a":"); DROP TABLE t; --","b":9007199254740993}`},
	{SQL: `SELECT @b::int - @a::int AS a`, Args: []any{pgx.NamedArgs{"a": 1, "b": 3}}, Row: `{"a":2}`},
	{SQL: `SELECT @a::int AS a, '@b' AS b`, Args: []any{pgx.NamedArgs{"a": 1, "c": 3}}, Row: `{"a":1,"b":"@b"}`},
	{SQL: `SELECT @missing::int AS a`, Args: []any{pgx.NamedArgs{}}, Row: `{"a":null}`},
	{SQL: `SELECT @a::int AS a`, Args: []any{pgx.StrictNamedArgs{"a": 1}}, Row: `{"a":1}`},
}

// ConfusesPgx has pgx 5.12.0 take a name for a dollar quote in simple_protocol, so
// that it finds no parameter behind it. It says so before it sends anything.
const ConfusesPgx = `SELECT 1 AS a$b$`

// NoRow is the row of a statement that gives none.
const NoRow = "none"

// Refused are refused before anything is sent.
var Refused = []struct {
	SQL  string
	Args []any
	Says string
}{
	{SQL: `INSERT INTO t VALUES (1)`, Says: `is an INSERT without a RETURNING, so that it returns no row; add RETURNING`},
	{SQL: `update t set n = 2 -- returning n`, Says: `an UPDATE without a RETURNING`},
	{SQL: `DELETE FROM t WHERE s = 'RETURNING'`, Says: `a DELETE without a RETURNING`},
	{SQL: `MERGE INTO t USING t u ON false WHEN NOT MATCHED THEN DO NOTHING`, Says: `a MERGE without a RETURNING`},
	{SQL: `INSERT INTO t SELECT n AS returning FROM t`, Says: `an INSERT without`},
	{SQL: `INSERT INTO t SELECT u.returning FROM u`, Says: `an INSERT without`},
	{SQL: `INSERT INTO t ("returning") VALUES (1)`, Says: `an INSERT without`},
	{SQL: `WITH a AS (DELETE FROM t RETURNING n) INSERT INTO t SELECT n FROM a`, Says: `an INSERT without`},
	{SQL: ``, Says: "empty"},
	{SQL: ` ;; `, Says: "empty"},
	{SQL: `-- nothing`, Says: "empty"},
	{SQL: `/* nothing */`, Says: "empty"},
	{SQL: `SELECT 1; SELECT 2`, Says: "more than one"},
	{SQL: `SELECT 1; COMMIT`, Says: "more than one"},
	{SQL: "SELECT 1;/**/;--\n;SELECT 2", Says: "more than one"},
	{SQL: `SELECT '\'; COMMIT; --'`, Says: "more than one"},
	{SQL: `SELECT $$a$$; SELECT 2`, Says: "more than one"},
	{SQL: `SELECT 1)`, Says: "closes"},
	{SQL: `SELECT 1) SELECT (2`, Says: "closes"},
	{SQL: `) SELECT 1 (`, Says: "closes"},
	{SQL: `SELECT 1), more AS (SELECT 2`, Says: "closes"},
	{SQL: `SELECT (1`, Says: "opens a parenthesis"},
	{SQL: `SELECT (1;`, Says: "opens a parenthesis"},
	{SQL: `SELECT (1; SELECT 2)`, Says: "between parentheses"},
	{SQL: `SELECT (1; /**/; -- ;
 )`, Says: "between parentheses"},
	{SQL: `(`, Says: "opens a parenthesis"},
	{SQL: `SELECT 'open`, Says: "does not end"},
	{SQL: `SELECT 'open''`, Says: "does not end"},
	{SQL: `SELECT E'open\'`, Says: "does not end"},
	{SQL: `SELECT "open`, Says: "does not end"},
	{SQL: `SELECT $$open`, Says: "does not end"},
	{SQL: `SELECT $a$open$b$`, Says: "does not end"},
	{SQL: `SELECT 1 /* open`, Says: "does not end"},
	{SQL: `SELECT 1 /* open /* */`, Says: "does not end"},
	{SQL: `/* open`, Says: "empty"},
	{SQL: `CREATE TABLE x ()`, Says: "CREATE"},
	{SQL: `DO $$BEGIN END$$`, Says: "DO"},
	{SQL: `CALL p()`, Says: "CALL"},
	{SQL: `SET x = 1`, Says: "SET"},
	{SQL: `COPY t TO STDOUT`, Says: "COPY"},
	{SQL: `EXPLAIN SELECT 1`, Says: "EXPLAIN"},
	{SQL: `BEGIN`, Says: "BEGIN"},
	{SQL: `COMMIT`, Says: "COMMIT"},
	{SQL: `/**/ rollback`, Says: "ROLLBACK"},
	{SQL: `PREPARE x AS SELECT 1`, Says: "PREPARE"},
	{SQL: `EXECUTE x`, Says: "EXECUTE"},
	{SQL: `SHOW all`, Says: "SHOW"},
	{SQL: `LISTEN x`, Says: "LISTEN"},
	{SQL: `"SELECT" 1`, Says: "begins with"},
	{SQL: `'SELECT' 1`, Says: "begins with"},
	{SQL: `1`, Says: "begins with"},
	{SQL: `WITH`, Says: "nothing after"},
	{SQL: `WITH a AS (SELECT 1)`, Says: "nothing after"},
	{SQL: `WITH a AS (SELECT 1) CREATE TABLE x ()`, Says: "nothing after"},
	{SQL: `WITH SELECT 1`, Says: "nothing after"},
	{SQL: `SELECT $0`, Says: "$0"},
	{SQL: `SELECT $00`, Says: "$00"},
	{SQL: `SELECT $65536`, Says: "$65536"},
	{SQL: `SELECT $65530`, Says: "at most"},
	{SQL: `SELECT $9223372036854775807`, Says: "$9223372036854775807"},
	{SQL: `SELECT $99999999999999999999`, Says: "$99999999999999999999"},
	{SQL: `SELECT $1::int`, Says: "1 parameters and 0 arguments"},
	{SQL: `SELECT $1::int`, Args: []any{1, 2}, Says: "1 parameters and 2 arguments"},
	{SQL: `SELECT $3::int`, Args: []any{1}, Says: "3 parameters and 1 arguments"},
	{SQL: `SELECT 1`, Args: []any{1}, Says: "0 parameters and 1 arguments"},
	{SQL: `SELECT '$1'`, Args: []any{1}, Says: "0 parameters and 1 arguments"},
	{SQL: `SELECT @a::int`, Args: []any{pgx.StrictNamedArgs{}}, Says: "rewritten"},
	{SQL: "SELECT 1 \x00) SELECT 2", Says: "zero byte"},
	{SQL: "SELECT '\x00'", Says: "zero byte"},
}
