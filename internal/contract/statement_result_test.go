package contract_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/sqllex/corpus"
)

// columns has a field for each kind of column that matters.
type columns struct {
	Big       int64           `json:"big"`
	Digits    json.Number     `json:"digits"`
	At        time.Time       `json:"at"`
	JSON      json.RawMessage `json:"j"`
	JSONB     map[string]any  `json:"jb"`
	Text      string          `json:"text"`
	Null      *string         `json:"null"`
	Ints      []int64         `json:"ints"`
	Texts     [][]string      `json:"texts"`
	Bytes     string          `json:"bytes"`
	Pair      pair            `json:"pair"`
	Pairs     []pair          `json:"pairs"`
	Yes       bool            `json:"yes"`
	Float     float64         `json:"float"`
	Day       string          `json:"day"`
	UUID      string          `json:"uuid"`
	NotANum   string          `json:"nan"`
	MinusZero json.Number     `json:"minus"`
}

type pair struct {
	A int    `json:"a"`
	B string `json:"b"`
}

const columnsSQL = `SELECT 9007199254740993::bigint AS big,
	123456789012345678901234567890.123456789012345678901234567890::numeric AS digits,
	timestamptz '2026-01-02 03:04:05.678901+00' AS at,
	json '{"b": 1.50, "a": [null, "\u00e9"]}' AS j, jsonb '{"b": 2, "a": {}}' AS jb,
	E'quote " back \\ slash / tab \t line \n bell \x07 emoji 🚀 sep \u2028 </script>' AS text, NULL::text AS null,
	ARRAY[9007199254740993, -1] AS ints, ARRAY[['a', 'b'], ['c', NULL]] AS texts,
	'\xdeadbeef'::bytea AS bytes, ROW(1, 'x')::pair AS pair, ARRAY[ROW(1, 'x'), NULL]::pair[] AS pairs,
	true AS yes, 0.1::float8 AS float, date '2026-02-03' AS day, '00000000-0000-0000-0000-00000000000a'::uuid AS uuid,
	'NaN'::numeric AS nan, -0.00::numeric AS minus`

// TestStatementColumns: what arrives in a first call and in a replay.
func TestStatementColumns(t *testing.T) {
	t.Parallel()

	for _, p := range []profile{
		{mode: pgx.QueryExecModeCacheStatement, way: viaStatement},
		{mode: pgx.QueryExecModeSimpleProtocol, way: viaStatement},
		{mode: pgx.QueryExecModeCacheStatement, way: viaSeparate},
	} {
		p.isolation = pgx.ReadCommitted
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			ctx, f := p.setup(t, nil)
			f.exec(t, `CREATE TYPE pair AS (a int, b text)`)
			f.exec(t, `ALTER DATABASE `+pgx.Identifier{f.pool.Config().ConnConfig.Database}.Sanitize()+` SET timezone = 'UTC'`)
			f.pool.Reset()
			stmt := dedup.SQL(columnsSQL)

			first, err := dedup.DoStatement[columns](ctx, f.d, call("k"), stmt)
			require.NoError(t, err)
			got := first.Value
			require.EqualValues(t, 9007199254740993, got.Big)
			require.EqualValues(t, "123456789012345678901234567890.123456789012345678901234567890", got.Digits)
			require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC), got.At.UTC())
			require.Equal(t, `{"b": 1.50, "a": [null, "\u00e9"]}`, string(got.JSON), "json stays byte for byte")
			require.Equal(t, map[string]any{"b": 2.0, "a": map[string]any{}}, got.JSONB)
			require.Equal(t, "quote \" back \\ slash / tab \t line \n bell \x07 emoji 🚀 sep \u2028 </script>", got.Text)
			require.Nil(t, got.Null)
			require.Equal(t, []int64{9007199254740993, -1}, got.Ints)
			require.Equal(t, [][]string{{"a", "b"}, {"c", ""}}, got.Texts)
			require.Equal(t, `\xdeadbeef`, got.Bytes, "as row_to_json writes it")
			require.Equal(t, pair{1, "x"}, got.Pair)
			require.Equal(t, []pair{{1, "x"}, {}}, got.Pairs)
			require.True(t, got.Yes)
			require.Equal(t, 0.1, got.Float)
			require.Equal(t, "2026-02-03", got.Day)
			require.Equal(t, "00000000-0000-0000-0000-00000000000a", got.UUID)
			require.Equal(t, "NaN", got.NotANum, "which JSON knows no number for")
			require.EqualValues(t, "0.00", got.MinusZero)

			again, err := dedup.DoStatement[columns](ctx, f.d, call("k"), stmt)
			require.NoError(t, err)
			require.True(t, again.Replayed)
			require.Equal(t, first.Value, again.Value)

			// Other types take the same record, of Do too.
			raw, err := dedup.DoStatement[json.RawMessage](ctx, f.d, call("k"), stmt)
			require.NoError(t, err)
			stored := scalar[string](t, f.bundle, `SELECT result FROM tool_dedup`)
			require.Equal(t, stored, string(raw.Value))
			object, err := dedup.DoStatement[map[string]json.RawMessage](ctx, f.d, call("k"), stmt)
			require.NoError(t, err)
			require.Equal(t, "9007199254740993", string(object.Value["big"]))
			some, err := dedup.DoStatement[any](ctx, f.d, call("k"), stmt)
			require.NoError(t, err)
			require.Equal(t, 9007199254740992.0, some.Value.(map[string]any)["big"], "an any has float64")
			pointer, err := dedup.DoStatement[*columns](ctx, f.d, call("k"), stmt)
			require.NoError(t, err)
			require.Equal(t, first.Value, *pointer.Value)
		})
	}
}

// TestStatementSameColumnTwice shows why columns need names that differ.
func TestStatementSameColumnTwice(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	raw, err := dedup.DoStatement[json.RawMessage](ctx, f.d, call("k"), dedup.SQL(`SELECT 1 AS a, 2 AS a`))
	require.NoError(t, err)
	require.Equal(t, `{"a":1,"a":2}`, string(raw.Value))
	last, err := dedup.DoStatement[map[string]int](ctx, f.d, call("k"), dedup.SQL(`SELECT 1 AS a, 2 AS a`))
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 2}, last.Value)
}

// stringer is an interface that no object can be read into.
type stringer interface{ String() string }

// fromText is a struct that JSON makes of a string.
type fromText struct{ S string }

func (f *fromText) UnmarshalText(b []byte) error { f.S = string(b); return nil }

// named is a map's key that is made of a text.
type named struct{ fromText }

func TestStatementResultTypes(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	requireRefused := func(_ any, err error) {
		t.Helper()
		var invalid *dedup.InvalidError
		require.ErrorAs(t, err, &invalid)
		require.Equal(t, "R", invalid.Field)
	}
	c := call("refused")
	requireRefused(dedup.DoStatement[int](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[string](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[[]ticket](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[[]byte](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[*int](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[func()](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[chan int](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[stringer](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[error](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[fromText](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[struct{ id int }](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[netip.Addr](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[map[int]any](ctx, f.d, c, leave("k")))
	requireRefused(dedup.DoStatement[map[ticket]any](ctx, f.d, c, leave("k")))
	require.Zero(t, f.runs(t))

	taken := func(replayed bool, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	is := func(r any, err error) { t.Helper(); taken(r != nil, err) }
	is(dedup.DoStatement[struct{}](ctx, f.d, call("1"), leave("1")))
	is(dedup.DoStatement[map[string]any](ctx, f.d, call("2"), leave("2")))
	is(dedup.DoStatement[map[named]any](ctx, f.d, call("3"), leave("3")))
	is(dedup.DoStatement[any](ctx, f.d, call("4"), leave("4")))
	is(dedup.DoStatement[**ticket](ctx, f.d, call("5"), leave("5")))
	is(dedup.DoStatement[json.RawMessage](ctx, f.d, call("6"), leave("6")))
	require.Equal(t, 6, f.runs(t))
}

// TestStatementUnfit has a result that does not fit the caller's type, which only
// the answer shows.
func TestStatementUnfit(t *testing.T) {
	t.Parallel()

	for _, way := range []callWay{viaStatement, viaSeparate} {
		ctx, f := profile{isolation: pgx.ReadCommitted, way: way}.setup(t, nil)
		type narrow struct {
			Title int `json:"title"`
		}
		for _, replayed := range []bool{false, true, true} {
			result, err := dedup.DoStatement[narrow](ctx, f.d, call("k"), leave("k"))
			var unfit *dedup.InvalidError
			require.ErrorIs(t, err, dedup.ErrInvalid)
			require.ErrorAs(t, err, &unfit)
			require.JSONEq(t, `{"id":1,"title":"k"}`, string(unfit.Stored))
			require.Equal(t, replayed, result.Replayed)
			require.False(t, result.CreatedAt.IsZero())
			require.False(t, dedup.IsRetryable(err))
		}
		require.Equal(t, 1, f.runs(t))
		require.Equal(t, 1, f.effects(t, "k"))
		fit, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), leave("k"))
		require.NoError(t, err)
		require.Equal(t, ticket{ID: 1, Title: "k"}, fit.Value)
	}
}

func TestStatementResultSize(t *testing.T) {
	t.Parallel()

	const most = 8 << 10
	for _, way := range []callWay{viaStatement, viaSeparate} {
		ctx, f := profile{isolation: pgx.ReadCommitted, way: way}.setup(t, &dedup.Options{MaxResultBytes: most})
		empty := len(`{"title":""}`)
		stmt := func(n int) dedup.Statement {
			return dedup.SQL(`INSERT INTO effects (ref) VALUES (repeat('é', $1::int / 2) || repeat('x', $1::int % 2)) RETURNING ref AS title`, n-empty)
		}
		exact, err := dedup.DoStatement[ticket](ctx, f.d, call("exact"), stmt(most))
		require.NoError(t, err)
		require.Len(t, exact.Value.Title, most-empty)
		require.Equal(t, 1, exact.Attempts)

		_, err = dedup.DoStatement[ticket](ctx, f.d, call("over"), stmt(most+1))
		var tooLong *dedup.InvalidError
		require.ErrorIs(t, err, dedup.ErrInvalid)
		require.ErrorAs(t, err, &tooLong)
		require.Contains(t, tooLong.Reason, fmt.Sprintf("has %d bytes, and Options.MaxResultBytes allows %d", most+1, most))
		require.Empty(t, tooLong.Stored)
		require.Equal(t, 1, f.records(t))
		require.Equal(t, 1, scalar[int](t, f.bundle, `SELECT count(*) FROM effects`))
	}
}

// TestStatementRows: none and several are errors, for OnError too.
func TestStatementRows(t *testing.T) {
	t.Parallel()

	for _, way := range []callWay{viaStatement, viaSeparate} {
		ctx, f := profile{isolation: pgx.ReadCommitted, way: way}.setup(t, nil)
		for n, want := range map[int]error{0: pgx.ErrNoRows, 2: pgx.ErrTooManyRows, 1000: pgx.ErrTooManyRows} {
			stmt := dedup.SQL(`INSERT INTO effects SELECT 'row' FROM generate_series(1, $1::int) RETURNING ref AS title`, n)
			_, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), stmt)
			require.ErrorIs(t, err, want)
			require.Zero(t, f.records(t))

			var got error
			stmt.OnError = func(err error) error { got = err; return errPaper }
			_, err = dedup.DoStatement[ticket](ctx, f.d, call("k"), stmt)
			require.ErrorIs(t, err, errPaper)
			require.ErrorIs(t, got, want)

			// Nil would leave a call without an answer.
			stmt.OnError = func(error) error { return nil }
			_, err = dedup.DoStatement[ticket](ctx, f.d, call("k"), stmt)
			require.ErrorIs(t, err, want)
		}
		stmt := dedup.SQL(`DELETE FROM effects WHERE ref = 'nobody' RETURNING ref AS title`)
		stmt.OnError = func(err error) error { return dedup.Final(fmt.Errorf("no such ticket: %w", err)) }
		for _, replayed := range []bool{false, true} {
			_, err := dedup.DoStatement[ticket](ctx, f.d, call("final"), stmt)
			var refused *dedup.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, replayed, refused.Replayed)
			require.True(t, strings.HasPrefix(refused.Message, "no such ticket"))
		}
		require.Zero(t, f.effects(t, "row"))
	}
}

var readCommitted = profile{isolation: pgx.ReadCommitted}

func outcomes(ctx context.Context, d *dedup.Deduper, calls ...dedup.StatementCall) []dedup.BatchOutcome[ticket] {
	return slices.Collect(dedup.DoBatch[ticket](ctx, d, slices.Values(calls), nil))
}

// textRow is how a statement's row arrives: byte for byte.
type textRow = json.RawMessage

// TestStatementTexts runs every text that is taken, as one statement with its
// record and separately, and compares what it gives and leaves.
func TestStatementTexts(t *testing.T) {
	t.Parallel()

	require.Greater(t, len(corpus.Taken)+len(corpus.Refused), 120)
	for name, separate := range map[string]bool{"Whole": false, "Separate": true} {
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol} {
			t.Run(name+"-"+mode.String(), func(t *testing.T) {
				t.Parallel()
				ctx, f := profile{isolation: pgx.ReadCommitted, mode: mode}.setup(t, &dedup.Options{Retention: apart(separate)})
				f.exec(t, `CREATE TABLE t (n int, s text)`)
				f.exec(t, `CREATE FUNCTION leave(n int) RETURNS int LANGUAGE sql AS 'INSERT INTO t VALUES (n) RETURNING n'`)
				left := func() int { return scalar[int](t, f.bundle, `SELECT count(*) FROM t WHERE n < 0`) }
				for i, c := range corpus.Taken {
					f.exec(t, `WITH gone AS (DELETE FROM t) INSERT INTO t VALUES (1, 'one')`)
					call := call(fmt.Sprint(i))
					result, err := dedup.DoStatement[textRow](ctx, f.d, call, dedup.SQL(c.SQL, c.Args...))
					if c.Row == corpus.NoRow {
						require.ErrorIs(t, err, pgx.ErrNoRows, c.SQL)
						continue
					}
					require.NoError(t, err, c.SQL)
					require.Equal(t, c.Row, string(result.Value), c.SQL)
					if c.SQL != corpus.ConfusesPgx || mode != pgx.QueryExecModeSimpleProtocol {
						require.Equal(t, 1, result.Attempts, c.SQL)
					}
					require.Equal(t, c.Left, left(), c.SQL)

					again, err := dedup.DoStatement[textRow](ctx, f.d, call, dedup.SQL(c.SQL, c.Args...))
					require.NoError(t, err, c.SQL)
					require.True(t, again.Replayed, c.SQL)
					require.Equal(t, c.Row, string(again.Value), c.SQL)
					require.Equal(t, c.Left, left(), "after the replay of %s", c.SQL)
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
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	for _, c := range corpus.Refused {
		_, err := dedup.DoStatement[textRow](t.Context(), d, dedup.Call{Scope: "s", Tool: "t", Key: "k"}, dedup.SQL(c.SQL, c.Args...))
		var invalid *dedup.InvalidError
		require.ErrorAs(t, err, &invalid, c.SQL)
		require.Equal(t, "Statement", invalid.Field, c.SQL)
		require.ErrorContains(t, err, c.Says, c.SQL)
	}
	require.Zero(t, pool.Stat().NewConnsCount())
	require.Zero(t, pool.Stat().AcquireCount())
}
