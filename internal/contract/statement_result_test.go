package contract_test

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

func TestStatementResultSize(t *testing.T) {
	t.Parallel()

	const most = 8 << 10
	for _, way := range []callWay{viaStatement} {
		ctx, f := profile{isolation: pgx.ReadCommitted, way: way}.setup(t, &dedup.Options{MaxResultBytes: most})
		empty := len(`{"id":0,"title":""}`)
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

	for _, way := range []callWay{viaStatement} {
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

// hungUp is an argument whose value comes from a service that hung up.
type hungUp struct{}

func (hungUp) Value() (driver.Value, error) { return nil, io.ErrUnexpectedEOF }

// TestStatementOfALostService: OnError gets a lost connection that is not the statement's own.
func TestStatementOfALostService(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	stmt := dedup.SQL(`INSERT INTO effects VALUES ($1) RETURNING 1 AS id`, hungUp{})
	stmt.OnError = func(err error) error { return dedup.Final(err) }
	_, err := dedup.DoStatement[ticket](ctx, f.d, call("k"), stmt)
	require.ErrorIs(t, err, dedup.ErrRefused)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, 1, f.records(t))
}

var readCommitted = profile{isolation: pgx.ReadCommitted}

func outcomes(ctx context.Context, d *dedup.Deduper, calls ...dedup.StatementCall) []dedup.BatchOutcome[ticket] {
	return slices.Collect(dedup.DoBatch[ticket](ctx, d, slices.Values(calls), nil))
}

// TestStatementFits: a row that does not fit R is refused before COMMIT, so that nothing is kept.
func TestStatementFits(t *testing.T) {
	t.Parallel()

	ctx, f := plain.setup(t, nil)
	type narrow struct{ Title int }
	type fewer struct{ ID int }
	for _, replayed := range []bool{false, true} {
		_, err := dedup.DoStatement[narrow](ctx, f.d, call("k"), leave("k"))
		require.ErrorIs(t, err, dedup.ErrInvalid)
		require.False(t, dedup.IsRetryable(err))
		_, err = dedup.DoStatement[fewer](ctx, f.d, call("k"), leave("k"))
		require.ErrorIs(t, err, dedup.ErrInvalid)
		_, err = dedup.DoStatement[int](ctx, f.d, call("k"), leave("k"))
		require.ErrorIs(t, err, dedup.ErrInvalid)
		require.Zero(t, f.records(t), replayed)
	}
	type byJSON struct {
		Number int    `json:"id"`
		Title  string `json:"title"`
	}
	_, err := dedup.DoStatement[byJSON](ctx, f.d, call("k"), leave("k"))
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.ErrorContains(t, err, "`db` tags")
	twins := dedup.SQL(`INSERT INTO effects VALUES ('k') RETURNING 1 AS id, 2 AS id`)
	_, err = dedup.DoStatement[fewer](ctx, f.d, call("k"), twins)
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.ErrorContains(t, err, `two columns "id"`)
	_, err = dedup.DoStatement[map[string]any](ctx, f.d, call("k"), twins)
	require.ErrorContains(t, err, `two columns "id"`)
	require.Zero(t, f.records(t))
	require.Zero(t, f.effects(t, "k"))

	n, err := dedup.DoStatement[int64](ctx, f.d, call("n"), dedup.SQL(`SELECT 9007199254740993`))
	require.NoError(t, err)
	require.EqualValues(t, 9007199254740993, n.Value)
	at, err := dedup.DoStatement[time.Time](ctx, f.d, call("at"), dedup.SQL(`SELECT timestamptz '2026-01-02 03:04:05.678901+00'`))
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC), at.Value.UTC())
	raw, err := dedup.DoStatement[json.RawMessage](ctx, f.d, call("raw"), dedup.SQL(`WITH e AS (INSERT INTO effects VALUES ('raw') RETURNING ref, 1.50 AS n) SELECT row_to_json(e) FROM e`))
	require.NoError(t, err)
	require.Equal(t, `{"ref":"raw","n":1.50}`, string(raw.Value))
	again, err := dedup.DoStatement[json.RawMessage](ctx, f.d, call("raw"), dedup.SQL(`SELECT 1`))
	require.NoError(t, err)
	require.Equal(t, raw.Value, again.Value)
	m, err := dedup.DoStatement[map[string]any](ctx, f.d, call("m"), leave("m"))
	require.NoError(t, err)
	require.Equal(t, "m", m.Value["title"])
}
