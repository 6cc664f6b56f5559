package wire

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestPipeline: the statements of a pipeline are one transaction, answered in their order; what
// stands behind an error is skipped.
func TestPipeline(t *testing.T) {
	t.Parallel()

	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			config, err := pgx.ParseConfig(pgtest.NewEmpty(t).URL)
			require.NoError(t, err)
			config.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(ctx, config)
			require.NoError(t, err)
			defer conn.Close(ctx)
			_, err = conn.Exec(ctx, `CREATE TABLE t (n bigint PRIMARY KEY)`)
			require.NoError(t, err)
			insert, all, none := NewQuery(`INSERT INTO t VALUES ($1::bigint)`), NewQuery(`SELECT n FROM t ORDER BY n`), NewQuery(`SELECT n FROM t WHERE n < 0`)
			on := On(conn)
			require.NoError(t, on.Prepare(ctx, insert, all, none))

			p := on.Pipeline()
			for n := range int64(3) {
				p.Queue(insert, &n)
			}
			p.Queue(all)
			p.Queue(none)
			p.Queue(all)
			p.Send(ctx)
			for range 3 {
				require.EqualValues(t, 1, p.Exec().RowsAffected())
				require.False(t, p.Failed())
			}
			var n int64
			var seen []int64
			p.Each([]any{&n}, func() error { seen = append(seen, n); return nil })
			require.Equal(t, []int64{0, 1, 2}, seen)
			require.False(t, p.Scan(&n))
			require.True(t, p.Scan(&n))
			require.NoError(t, p.Close())

			// The third fails, and takes the first two with it.
			p = on.Pipeline()
			for _, n := range []int64{3, 4, 0, 5} {
				p.Queue(insert, &n)
			}
			p.Send(ctx)
			for range 4 {
				p.Exec()
			}
			require.True(t, p.Failed())
			if mode == pgx.QueryExecModeSimpleProtocol { // one text, and one answer
				require.LessOrEqual(t, p.Succeeded(), 2)
			} else {
				require.Equal(t, 2, p.Succeeded())
			}
			require.Equal(t, CodeUniqueViolation, SQLState(p.Close()))
			require.Equal(t, byte('I'), conn.PgConn().TxStatus())
			var count int
			require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM t`).Scan(&count))
			require.Equal(t, 3, count)

			// An error of the reader's own comes before the server's.
			p = on.Pipeline()
			p.Queue(all)
			p.Send(ctx)
			own := errors.New("own")
			p.Each([]any{&n}, func() error { return own })
			require.ErrorIs(t, p.Close(), own)
			require.Equal(t, byte('I'), conn.PgConn().TxStatus())

			// What is ignored counts as answered, also at the end.
			p = on.Pipeline()
			p.Ignore(none)
			p.Queue(all)
			p.Ignore(none)
			p.Send(ctx)
			require.True(t, p.Scan(&n))
			require.Equal(t, 2, p.Succeeded())
			require.NoError(t, p.Close())
			require.Equal(t, 3, p.Succeeded())
		})
	}
}

// TestScanRow: an unexpected answer is an error, and neither a panic nor a value.
func TestScanRow(t *testing.T) {
	t.Parallel()

	var yes bool
	var n int64
	var at time.Time
	var text string
	var maybe pgtype.Text
	var bytes []byte
	var sum32 [32]byte
	eight := []byte{0, 0, 0, 0, 0, 0, 0, 1}
	for name, c := range map[string]struct {
		value []byte
		dest  any
		ok    bool
	}{
		"Bool":       {[]byte{1}, &yes, true},
		"LongBool":   {[]byte{1, 0}, &yes, false},
		"NullBool":   {nil, &yes, false},
		"Int":        {eight, &n, true},
		"ShortInt":   {eight[:4], &n, false},
		"NullInt":    {nil, &n, false},
		"Time":       {eight, &at, true},
		"ShortTime":  {eight[1:], &at, false},
		"NullTime":   {nil, &at, false},
		"String":     {[]byte("x"), &text, true},
		"NullString": {nil, &text, false},
		"Maybe":      {nil, &maybe, true},
		"NullBytes":  {nil, &bytes, true},
		"Bytes":      {[]byte("00ff"), &bytes, true},
		"NoDigits":   {[]byte("00fg"), &bytes, false},
		"Sum":        {[]byte(strings.Repeat("ab", 32)), &sum32, true},
		"ShortSum":   {[]byte(strings.Repeat("ab", 31)), &sum32, false},
		"NullSum":    {nil, &sum32, false},
		"Skipped":    {eight, nil, true},
		"Unknown":    {eight, &c0{}, false},
	} {
		err := scanRow([][]byte{c.value}, []any{c.dest})
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
	}
	require.Equal(t, time.Date(1970, 1, 1, 0, 0, 0, 1000, time.UTC), at.UTC())
	require.Error(t, scanRow([][]byte{nil, nil}, []any{nil}))
}

type c0 struct{}

// TestPrepareStopsAtABadText: what was prepared before a text that cannot be stays, on the server
// and in the line.
func TestPrepareStopsAtABadText(t *testing.T) {
	t.Parallel()

	ctx := t.Context()
	conn, err := pgx.Connect(ctx, pgtest.NewEmpty(t).URL)
	require.NoError(t, err)
	defer conn.Close(ctx)
	on := On(conn)
	good, bad, later := NewQuery(`SELECT 1`), NewQuery(`SELECT nonsense`), NewQuery(`SELECT 2`)
	require.Equal(t, "42703", SQLState(on.Prepare(ctx, good, bad, later)))
	require.NoError(t, on.Prepare(ctx, good, later))

	before := on.prepared[good.Name]
	on.Invalidate(good)
	on.Invalidate(NewQuery(`SELECT 3`))
	require.NoError(t, on.Prepare(ctx, good, later))
	require.NotSame(t, before, on.prepared[good.Name])
	require.Len(t, on.prepared, 2)
}
