package external_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestSessions takes an operation through every state and every statement, in all kinds of sessions
// and with a schema whose name needs quotes.
func TestSessions(t *testing.T) {
	t.Parallel()
	const odd = `we"ird's %d $1 schema`
	for name, set := range map[string]func(*pgxpool.Config){
		"CacheStatement": func(*pgxpool.Config) {},
		"CacheDescribe":  func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe },
		"DescribeExec":   func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec },
		"Exec":           func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec },
		"Simple":         func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol },
		"Serializable":   func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable" },
		"ExecTracedInOtherStyles": func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode, c.ConnConfig.Tracer = pgx.QueryExecModeExec, silent{}
			otherStyles(c)
		},
		"SimpleInOtherStyles": func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			otherStyles(c)
		},
		"OneConnection": func(c *pgxpool.Config) { c.MaxConns = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t).Pool(t, set)
			quoted := pgx.Identifier{odd}.Sanitize()
			for _, statement := range []string{
				`CREATE SCHEMA ` + quoted, `ALTER TABLE tool_dedup SET SCHEMA ` + quoted, `ALTER TABLE tool_dedup_audit SET SCHEMA ` + quoted,
				`ALTER TABLE tool_effect SET SCHEMA ` + quoted, // and its sequence
			} {
				_, err := pool.Exec(t.Context(), statement)
				require.NoError(t, err)
			}
			f := &fixture{t: t, ctx: t.Context(), pool: pool, steps: &steps{reached: map[external.EventKind]int{}}}
			var err error
			f.d, err = dedup.New(pool, &dedup.Options{Schema: odd, Tracer: f.steps})
			require.NoError(t, err)
			f.tools, err = external.New(f.d, &external.Options{Lease: lease})
			require.NoError(t, err)
			everyState(f)
			require.NoError(t, f.tools.Close(f.ctx))
		})
	}
}

// otherStyles makes the server write times and bytes in formats that pgx does not read.
func otherStyles(c *pgxpool.Config) {
	for name, value := range map[string]string{"bytea_output": "escape", "DateStyle": "SQL, DMY", "IntervalStyle": "iso_8601", "TimeZone": "Asia/Kathmandu"} {
		c.ConnConfig.RuntimeParams[name] = value
	}
}

// silent is a tracer. With a tracer, pgx reads in other ways.
type silent struct{}

func (silent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}
func (silent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func everyState(f *fixture) {
	t := f.t
	audit := pgx.Identifier{f.d.Options().Schema, "tool_dedup_audit"}.Sanitize()
	s := &script{attempts: []answer{fails(errBusy), fails(errLost), is("ch_1"), fails(errDeclined), is("ch_2")}, looks: []answer{is()}}
	h := add(f, s.tool(external.Tool[in, out]{Settles: time.Millisecond}))
	result, err := h.Do(f.ctx, call("settles"), in{1})
	require.NoError(t, err)
	sent, _ := s.count()
	require.Equal(t, 3, sent)
	again, err := h.Do(f.ctx, call("settles"), in{1})
	require.NoError(t, err)
	require.Equal(t, result.Value, again.Value)
	_, err = h.Do(f.ctx, call("refused"), in{2})
	require.ErrorIs(t, err, dedup.ErrRefused)
	f.untilDue(f.lookup("settles"))
	require.True(t, f.advance("settles").Due.IsZero(), "rechecked")

	parks := add(f, external.Tool[in, out]{Name: "parks", Find: func(context.Context, external.Attempt, in) ([]out, error) { return nil, nil }, Perform: losing})
	for n, verdict := range []external.Verdict{
		external.Happened(out{"ch_9"}, "seen"), external.Never("not seen"), external.Refuse("no"),
		external.Happened(out{"ch_9"}, "seen"), external.Never("not seen"), external.Refuse("no"),
	} {
		key := fmt.Sprint(n)
		if n == 3 { // the second half runs without an audit
			var lines int
			require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT count(*) FROM `+audit).Scan(&lines))
			require.Equal(t, 3, lines)
			f.exec(`DROP TABLE ` + audit)
		}
		_, err := parks.Do(f.ctx, call(key), in{3})
		require.ErrorAs(t, err, new(*external.ParkedError))
		status, err := f.tools.Status(f.ctx, "acme", "parks", key)
		require.NoError(t, err)
		f.untilDue(status.Operation)
		op, err := f.tools.Advance(f.ctx, "acme", "parks", key)
		require.NoError(t, err)
		require.Equal(t, external.StateParked, op.State)
		require.NoError(t, f.tools.Resolve(f.ctx, op, verdict))
	}
	require.Empty(t, f.parked(f.ctx))
	accept(f, h, "accepted", 4)
	f.until("accepted", external.StateDone)
}
