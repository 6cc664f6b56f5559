package wire

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestQueryNames(t *testing.T) {
	t.Parallel()

	again := NewQuery(NewQuery("SELECT 1").Text)
	require.Equal(t, NewQuery("SELECT 1").Name, again.Name)
	require.NotEqual(t, NewQuery("SELECT 2").Name, again.Name)
	require.Less(t, len(NewQuery("SELECT 1").Name), 64, "Postgres would cut it")
}

// TestParams sends each kind of parameter in both ways, and reads it back.
func TestParams(t *testing.T) {
	t.Parallel()

	at := time.Date(1999, 12, 31, 23, 59, 59, 123456789, time.UTC)
	params := []any{
		new(""), new("it's \"é\" 🚀 \\"), new("x"), new([]byte(nil)), new([]byte{}), new([]byte{0, 0xff, '\''}),
		new(int64(-1 << 63)), new(int64(0)), new(int64(1<<63 - 1)), new(at), new(at.AddDate(1000, 0, 0)),
		new(time.Duration(1999)), new(2*(100*365*24*time.Hour) + time.Microsecond),
	}
	const text = `SELECT $1::text, $2::text, $3::text, $4::bytea IS NULL, encode($5::bytea, 'hex'), encode($6::bytea, 'hex'), $7::bigint, $8::bigint, $9::bigint,
		(extract(epoch FROM $10::timestamptz) * 1000000)::bigint, (extract(epoch FROM $11::timestamptz) * 1000000)::bigint,
		(extract(epoch FROM $12::interval) * 1000000)::bigint, (extract(epoch FROM $13::interval) * 1000000)::bigint`
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			config, err := pgx.ParseConfig(pgtest.NewEmpty(t).URL)
			require.NoError(t, err)
			config.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(t.Context(), config)
			require.NoError(t, err)
			defer conn.Close(t.Context())
			on, q := On(conn), NewQuery(text)
			require.Same(t, on, On(conn))
			require.Equal(t, mode == pgx.QueryExecModeSimpleProtocol, on.viaBatch)
			for range 2 {
				require.NoError(t, on.Prepare(t.Context(), q))
				p := on.Pipeline()
				p.Queue(q, params...)
				p.Send(t.Context())
				var texts [3]string
				var isNull bool
				var empty, bytes []byte
				var ints [3]int64
				var times [2]time.Time
				var ages [2]int64
				found := p.Scan(&texts[0], &texts[1], &texts[2], &isNull, &empty, &bytes, &ints[0], &ints[1], &ints[2], &times[0], &times[1], &ages[0], &ages[1])
				require.NoError(t, p.Close())
				require.True(t, found)
				require.Equal(t, [3]string{"", "it's \"é\" 🚀 \\", "x"}, texts)
				require.True(t, isNull)
				require.Empty(t, empty)
				require.Equal(t, []byte{0, 0xff, '\''}, bytes)
				require.Equal(t, [3]int64{-1 << 63, 0, 1<<63 - 1}, ints)
				require.True(t, times[0].Equal(at.Truncate(time.Microsecond)), times[0])
				require.True(t, times[1].Equal(at.AddDate(1000, 0, 0).Truncate(time.Microsecond)), times[1])
				require.Equal(t, [2]int64{1, (2*(100*365*24*time.Hour) + time.Microsecond).Microseconds()}, ages)
			}
			require.Equal(t, mode == pgx.QueryExecModeCacheStatement, on.prepared[q.Name] != nil)
		})
	}
}
