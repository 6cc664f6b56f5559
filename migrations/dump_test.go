package migrations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// schemaDump has what the catalogues say about a schema, without goose's version tables.
type schemaDump struct {
	relations, columns, constraints, indexes, comments []string
}

func dump(t *testing.T, pool *pgxpool.Pool, schema string) schemaDump {
	t.Helper()
	list := func(sql string) []string {
		rows, err := pool.Query(t.Context(), sql, schema)
		require.NoError(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], schema+".", "")
		}
		return lines
	}
	const ours = `
		FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1
		`
	const not = ` c.relname !~ '_version' `
	return schemaDump{
		relations: list(`SELECT concat_ws(' ', c.relname, c.relkind, c.relpersistence, c.reloptions)` + ours + `WHERE` + not + `ORDER BY 1`),
		columns: list(`SELECT concat_ws(' ', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attcollation::regcollation, a.attnotnull, pg_get_expr(d.adbin, d.adrelid))` + ours + `
			JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
			LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
			WHERE` + not + `ORDER BY c.relname, a.attnum`),
		constraints: list(`SELECT concat_ws(' ', c.relname, k.conname, pg_get_constraintdef(k.oid), k.convalidated)` + ours + `
			JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype <> 'n' WHERE` + not + `ORDER BY 1`),
		indexes: list(`SELECT pg_get_indexdef(i.indexrelid)` + ours + `
			JOIN pg_index i ON i.indexrelid = c.oid WHERE` + not + `ORDER BY 1`),
		comments: list(`SELECT concat_ws(' ', c.relname, d.objsubid, d.description)` + ours + `
			JOIN pg_description d ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass WHERE` + not + `ORDER BY c.relname, d.objsubid`),
	}
}

// database makes a pool connect to another database of the server.
func database(name string) func(*pgxpool.Config) {
	return func(config *pgxpool.Config) { config.ConnConfig.Database = name }
}

// drop drops a database at the end of a test.
func drop(t *testing.T, admin *pgxpool.Pool, name string) {
	t.Helper()
	_, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
	require.NoError(t, err)
}
