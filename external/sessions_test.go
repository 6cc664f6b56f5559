package external_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestSessions takes an operation through every state and every statement, in sessions of all
// kinds and with a schema whose name needs quotes.
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
		"OneConnection":  func(c *pgxpool.Config) { c.MaxConns = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t).Pool(t, set)
			for _, statement := range []string{
				`CREATE SCHEMA ` + pgx.Identifier{odd}.Sanitize(),
				`ALTER TABLE tool_dedup SET SCHEMA ` + pgx.Identifier{odd}.Sanitize(),
				`ALTER TABLE tool_effect SET SCHEMA ` + pgx.Identifier{odd}.Sanitize(), // and its sequence
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

func everyState(f *fixture) {
	t, p := f.t, newProvider()
	ctx := context.WithValue(f.ctx, providerKey{}, p)
	tries := map[int]int{}
	h := add(f, external.Tool[in, out]{Find: lookUp, Settles: time.Millisecond, Perform: func(_ context.Context, _ external.Attempt, i in) (out, error) {
		tries[i.Order]++
		switch {
		case i.Order == 1 && tries[1] == 1:
			return out{}, external.NotDone(errors.New("429"))
		case i.Order == 1 && tries[1] == 2:
			return out{}, errLost
		case i.Order == 2:
			return out{}, dedup.Final(errors.New("declined"))
		}
		return p.act("", i.Order), nil
	}})
	result, err := h.Do(ctx, call("settles"), in{1})
	require.NoError(t, err)
	require.Equal(t, 3, tries[1])
	again, err := h.Do(ctx, call("settles"), in{1})
	require.NoError(t, err)
	require.Equal(t, result.Value, again.Value)
	_, err = h.Do(ctx, call("refused"), in{2})
	require.ErrorIs(t, err, dedup.ErrRefused)
	op := f.lookup("settles")
	f.untilDue(op)
	op, err = f.tools.Advance(ctx, "acme", "charge", "settles")
	require.NoError(t, err)
	require.True(t, op.Due.IsZero(), "audited")

	parks := add(f, external.Tool[in, out]{Name: "parks", Find: lookUp, Perform: losing})
	verdicts := map[string]external.Verdict{"happened": external.Happened(out{"ch_9"}, "seen"), "never": external.Never("not seen"), "refuse": external.Refuse("no")}
	for key, verdict := range verdicts {
		_, err := parks.Do(ctx, call(key), in{3})
		require.ErrorAs(t, err, new(*external.ParkedError))
		status, err := f.tools.Status(ctx, "acme", "parks", key)
		require.NoError(t, err)
		op := status.Operation
		f.untilDue(op)
		op, err = f.tools.Advance(ctx, "acme", "parks", key)
		require.NoError(t, err)
		require.Equal(t, external.Parked, op.State)
		require.NoError(t, f.tools.Resolve(ctx, op, verdict))
	}
	require.LessOrEqual(t, len(f.parked(ctx)), 1)
	require.NoError(t, pgx.BeginFunc(ctx, f.pool, func(tx pgx.Tx) error {
		_, err := h.Accept(ctx, tx, call("accepted"), in{4})
		return err
	}))
	f.ctx = ctx
	f.until("accepted", external.Done)
}
