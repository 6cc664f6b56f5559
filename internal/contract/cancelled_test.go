package contract_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/wire"
)

// TestCancelledAtLimit: a statement of the library that waits with a lock_timeout may be cancelled
// when that is over. PostgreSQL does so if the lock is granted just then: the call goes on. A
// statement_timeout cancels every time: its error is the call's, and not one of a twin in flight.
func TestCancelledAtLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile profile
		slow    string // the statements that a trigger slows down
	}{
		"Record": {plain, `NEW.outcome = 'done'`},
		"Claim":  {profile{engine: onPlayedCitus, isolation: pgx.ReadCommitted}, `NEW.outcome = 'claimed'`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := c.profile.setup(t, &dedup.Options{MaxWait: 5 * time.Millisecond, Retry: quickRetry}, poolOfOne)
			slowDown := func(body string) {
				f.exec(t, `CREATE OR REPLACE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF `+c.slow+` THEN `+body+` END IF; RETURN NULL; END $$`)
			}
			f.exec(t, `CREATE SEQUENCE cancels`)
			slowDown(`IF nextval('cancels') = 1 THEN PERFORM pg_sleep(0.006); RAISE EXCEPTION 'cancelled' USING ERRCODE = '57014'; END IF;`)
			f.exec(t, `CREATE TRIGGER slow AFTER INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION slow()`)
			ways := map[string]func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error{
				"Do": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
					_, err := dedup.Do(ctx, d, c, effect(c.Key))
					return err
				},
				"DoStatement": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
					_, err := dedup.DoStatement[ticket](ctx, d, c, dedup.SQL(`SELECT 1 AS id`))
					return err
				},
				"DoTx": func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
					return pgx.BeginFunc(ctx, d.Pool(), func(tx pgx.Tx) error {
						_, err := dedup.DoTx(ctx, d, tx, c, effect(c.Key))
						return err
					})
				},
			}
			if name == "Claim" { // these write no record
				ways["Lookup"] = func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
					status, err := d.Lookup(ctx, c.Scope, c.Tool, c.Key)
					require.NotEqual(t, dedup.StateInFlight, status.State)
					return err
				}
				ways["Reset"] = func(ctx context.Context, d *dedup.Deduper, c dedup.Call) error {
					_, err := d.Reset(ctx, c.Scope, c.Tool, c.Key, dedup.ChangeOptions{Reason: "test"})
					return err
				}
			}
			for way, do := range ways {
				f.exec(t, `ALTER SEQUENCE cancels RESTART`)
				require.NoError(t, do(ctx, f.d, call("once "+way)), way)
			}

			slowDown(`PERFORM pg_sleep(60);`)
			opts := f.d.Options()
			hasty := newDeduper(t, f.db.Pool(t, func(config *pgxpool.Config) {
				config.ConnConfig.RuntimeParams["statement_timeout"] = "50"
			}), &opts)
			for way, do := range ways {
				err := do(ctx, hasty, call("always "+way))
				require.Equal(t, "57014", wire.SQLState(err), "%s: %v", way, err)
				require.False(t, dedup.IsRetryable(err), way)
			}
			require.Zero(t, f.effects(t, "always Do")+f.effects(t, "always DoTx"))
		})
	}
}
