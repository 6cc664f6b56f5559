package sqldedup_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/sqldedup"
)

// expressions are values of PostgreSQL, of each type that a service's table may have.
var expressions = []string{
	`NULL::int`, `NULL::text`, `NULL::numeric`, `NULL::timestamptz`, `NULL::bytea`, `NULL::jsonb`, `NULL::uuid`, `NULL::int[]`,
	`true`, `false`, `1::smallint`, `(-32768)::smallint`, `2147483647::int`, `9223372036854775807::bigint`, `(-9223372036854775808)::bigint`,
	`1.5::real`, `0.1::real`, `'NaN'::real`, `1e308::float8`, `'Infinity'::float8`, `'-Infinity'::float8`, `'NaN'::float8`,
	`12.50::numeric`, `12.50::numeric(10,2)`, `123456789012345678901234567890.123456789::numeric`, `'NaN'::numeric`, `'-0'::numeric`,
	`'text'::text`, `''::text`, `'žluťoučký 🐎'::text`, `'v'::varchar(12)`, `'c'::char(4)`, `'n'::name`, `'x'::"char"`,
	`'\x00ff'::bytea`, `''::bytea`, `'{"b": 1, "a": [1.0, null]}'::json`, `'{"b": 1, "a": [1.0, null]}'::jsonb`, `'null'::jsonb`, `'[1]'::jsonb`,
	`'6f1e1f0e-6e5c-4a9c-9f30-2f4a3f3f7c11'::uuid`, `'<a>b</a>'::xml`,
	`date '2026-11-23'`, `date '0044-03-15 BC'`, `timestamp '2026-11-23 10:00:00.123456'`, `timestamptz '2026-11-23 10:00:00.123456+05'`,
	`time '10:00:00.5'`, `timetz '10:00:00+02'`, `interval '1 year 2 days 03:04:05.6'`, `'10:00:00.5'::time(3)`, `'2026-11-23 10:00:00'::timestamp(0)`,
	`interval '1.5' second(2)`, `interval '1' hour`, `'v'::varchar`, `'101'::varbit`,
	`ARRAY[1,2,NULL]::int[]`, `ARRAY['a','b,c',NULL]::text[]`, `ARRAY[[1,2],[3,4]]`, `ARRAY[]::uuid[]`, `ARRAY[1.5,2]::numeric[]`,
	`int4range(1, 5)`, `numrange(1.5, NULL)`, `tstzrange('2026-01-01Z', 'infinity')`, `'[2026-01-01,2026-02-01)'::daterange`,
	`'10.0.0.1'::inet`, `'10.0.0.0/8'::cidr`, `'08:00:2b:01:02:03'::macaddr`, `point(1, 2)`, `'101'::bit(3)`, `'101'::varbit(8)`,
	`'12.34'::money`, `'a b'::tsvector`, `17::oid`, `'pg_class'::regclass`, `'17'::xid`, `'17'::cid`, `ROW(1, 'a')`,
	`'open'::ticket_state`, `NULL::ticket_state`, `ARRAY['open','shut']::ticket_state[]`, `5::positive`, `'a@b'::address`, `(1, 'x')::pair`,
}

// infinite are times without a time.Time. database/sql returns them as text, if the destination
// accepts that.
var infinite = []string{
	`'infinity'::timestamptz`, `'-infinity'::timestamptz`, `'infinity'::timestamp`, `'infinity'::date`, `'-infinity'::date`,
}

const ticketTypes = `
CREATE TYPE ticket_state AS ENUM ('open', 'shut');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN address AS text;
CREATE TYPE pair AS (n int, t text)`

// TestTypes reads each value through pgx's own driver and through an effect's handle, and compares
// the value, the column's types, and common destinations.
func TestTypes(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t).Pool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			_, err := pool.Exec(t.Context(), ticketTypes, pgx.QueryExecModeSimpleProtocol)
			require.NoError(t, err)
			d, err := dedup.New(pool, nil)
			require.NoError(t, err)
			db := stdlib.OpenDBFromPool(pool)
			t.Cleanup(func() { _ = db.Close() })

			for _, expression := range append(expressions, infinite...) {
				theirs, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				want := reading(t.Context(), theirs, expression)
				require.NoError(t, theirs.Rollback())
				require.NotContains(t, strings.Join(want, "\n"), "SQLSTATE 42601")

				_, err = dedup.Do(t.Context(), d, call(expression), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
					require.Equal(t, want, reading(ctx, tx, expression), expression)
					return 0, nil
				}))
				require.NoError(t, err, expression)
			}
		})
	}
}

// reading returns everything that database/sql can read of an expression.
func reading(ctx context.Context, tx *sql.Tx, expression string) (all []string) {
	query := "SELECT " + expression + " AS got"
	note := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }

	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return []string{err.Error()}
	}
	types, err := rows.ColumnTypes()
	if err != nil {
		return []string{err.Error()}
	}
	for _, column := range types {
		length, hasLength := column.Length()
		precision, scale, hasScale := column.DecimalSize()
		note("%s %s %v %d %t %d %d %t", column.Name(), column.DatabaseTypeName(), column.ScanType(), length, hasLength, precision, scale, hasScale)
	}
	if err := errors.Join(rows.Close(), rows.Err()); err != nil {
		return append(all, err.Error())
	}
	for _, dest := range []any{
		new(any), new(string), new([]byte), new(sql.NullString), new(sql.RawBytes), new(int64), new(uint32), new(float64), new(bool),
		new(time.Time), new(sql.NullTime), new(sql.NullInt64), new(sql.Null[float64]), new(*string), new(scanned),
	} {
		rows, err := tx.QueryContext(ctx, query)
		if err != nil {
			note("%T: %v", dest, err)
			continue
		}
		for rows.Next() {
			if err = rows.Scan(dest); err == nil {
				got := reflect.ValueOf(dest).Elem().Interface()
				if text, ok := got.(*string); ok && text != nil {
					got = *text
				}
				if at, ok := got.(time.Time); ok {
					got = fmt.Sprint(at.Format(time.RFC3339Nano), at.Location() == time.UTC)
				}
				note("%T: %T %#v", dest, got, got)
			}
		}
		note("%T: %v, %v, %v", dest, err, rows.Err(), rows.Close())
	}
	return all
}

// scanned is a sql.Scanner that keeps its source.
type scanned struct{ is string }

func (s *scanned) Scan(src any) error {
	s.is = fmt.Sprintf("%T %v", src, src)
	return nil
}

// TestArguments passes the same arguments to both drivers.
func TestArguments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	db := stdlib.OpenDBFromPool(b.pool)
	t.Cleanup(func() { _ = db.Close() })
	text := "text"
	at := time.Date(2026, 11, 23, 10, 0, 0, 123456000, time.UTC)
	arguments := []struct {
		as    string
		value any
	}{
		{"int", 5}, {"int", int64(5)}, {"bigint", uint32(5)}, {"int", nil}, {"int", sql.NullInt64{}}, {"int", sql.NullInt64{Int64: 3, Valid: true}},
		{"text", "a"}, {"text", &text}, {"text", (*string)(nil)}, {"text", sql.NullString{String: "n", Valid: true}}, {"text", []byte("bytes")},
		{"bytea", []byte{0, 255}}, {"jsonb", `{"a": 1}`}, {"jsonb", []byte(`{"a": 1}`)}, {"jsonb", map[string]int{"a": 1}},
		{"int[]", []int32{1, 2}}, {"text[]", []string{"a", "b"}}, {"uuid", "6f1e1f0e-6e5c-4a9c-9f30-2f4a3f3f7c11"},
		{"timestamptz", at}, {"date", at}, {"numeric", "12.50"}, {"numeric", 12.5}, {"boolean", true}, {"int", "5"}, {"int", struct{}{}},
		{"text", valuer{}}, {"interval", time.Hour},
	}
	read := func(ctx context.Context, tx *sql.Tx, i int) string {
		_, err := tx.ExecContext(ctx, `SAVEPOINT one`)
		require.NoError(t, err)
		var got sql.NullString
		err = tx.QueryRowContext(ctx, `SELECT ($1::`+arguments[i].as+`)::text`, arguments[i].value).Scan(&got)
		_, back := tx.ExecContext(ctx, `ROLLBACK TO SAVEPOINT one`)
		require.NoError(t, back)
		return fmt.Sprint(got, err)
	}
	theirs, err := db.BeginTx(b.ctx, nil)
	require.NoError(t, err)
	defer func() { _ = theirs.Rollback() }()
	_, err = dedup.Do(b.ctx, b.d, call("k"), sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
		for i, arg := range arguments {
			require.Equal(t, read(ctx, theirs, i), read(ctx, tx, i), "%T as %s", arg.value, arg.as)
		}
		return 0, nil
	}))
	require.NoError(t, err)
}

// valuer is a driver.Valuer.
type valuer struct{}

func (valuer) Value() (driver.Value, error) { return "by the valuer", nil }
