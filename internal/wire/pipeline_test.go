package wire

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestPipeline: the statements of a pipeline are one transaction, answered in
// their order; what stands behind an error is skipped.
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
				p.Queue(insert, Int(n))
			}
			p.Queue(all)
			p.Queue(none)
			p.Queue(all)
			a := p.Send(ctx)
			for range 3 {
				tag, err := a.Exec()
				require.NoError(t, err)
				require.EqualValues(t, 1, tag.RowsAffected())
			}
			var n int64
			var seen []int64
			require.NoError(t, a.Each([]any{&n}, func() error { seen = append(seen, n); return nil }))
			require.Equal(t, []int64{0, 1, 2}, seen)
			require.Equal(t, pgx.ErrNoRows, a.Scan(&n))
			require.NoError(t, a.Scan(&n))
			require.NoError(t, a.Close(nil))

			// The third fails, and takes the first two with it.
			p = on.Pipeline()
			for _, n := range []int64{3, 4, 0, 5} {
				p.Queue(insert, Int(n))
			}
			a = p.Send(ctx)
			var failed []int
			for i := range 4 {
				if _, err := a.Exec(); err != nil {
					failed = append(failed, i)
				}
			}
			require.Equal(t, CodeUniqueViolation, SQLState(a.Close(nil)))
			require.NotEmpty(t, failed)
			require.GreaterOrEqual(t, failed[0], 2)
			require.Equal(t, byte('I'), conn.PgConn().TxStatus())
			var count int
			require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM t`).Scan(&count))
			require.Equal(t, 3, count)

			// An error of the reader's own comes before the server's.
			p = on.Pipeline()
			p.Queue(all)
			a = p.Send(ctx)
			own := errors.New("own")
			require.ErrorIs(t, a.Close(a.Each([]any{&n}, func() error { return own })), own)
			require.Equal(t, byte('I'), conn.PgConn().TxStatus())
		})
	}
}

// TestScanRow: an answer that is not what was asked for is an error, and neither a
// panic nor a value.
func TestScanRow(t *testing.T) {
	t.Parallel()

	var yes bool
	var n int64
	var at time.Time
	var text string
	var maybe *string
	var bytes []byte
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
		"Infinity":   {[]byte{0x7f, 255, 255, 255, 255, 255, 255, 255}, &at, false},
		"MinusInf":   {[]byte{0x80, 0, 0, 0, 0, 0, 0, 0}, &at, false},
		"String":     {[]byte("x"), &text, true},
		"NullString": {nil, &text, false},
		"Maybe":      {nil, &maybe, true},
		"NullBytes":  {nil, &bytes, true},
		"Skipped":    {eight, nil, true},
		"Unknown":    {eight, &c0{}, false},
	} {
		err := scanRow([][]byte{c.value}, []any{c.dest})
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
	}
	require.Equal(t, time.Date(2000, 1, 1, 0, 0, 0, 1000, time.UTC), at.UTC())
	require.Error(t, scanRow([][]byte{nil, nil}, []any{nil}))
	room := make([]byte, 0, 8)
	into := room
	require.NoError(t, scanRow([][]byte{eight}, []any{&into}))
	require.Same(t, &room[:1][0], &into[0], "the room that is there is used")
}

type c0 struct{}

// TestPrepareStopsAtABadText: what was prepared before a text that cannot be stays,
// on the server and in the line.
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
	on.Stale(good)
	on.Stale(NewQuery(`SELECT 3`))
	require.NoError(t, on.Prepare(ctx, good, later))
	require.NotSame(t, before, on.prepared[good.Name])
	require.Len(t, on.prepared, 2)
}
