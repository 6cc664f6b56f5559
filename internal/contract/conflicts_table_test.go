package contract_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestArbiter: a table that would let an effect be committed twice, or without its record, is
// refused before the first effect is run, and taken once it is repaired. The tests of migrations
// have every way to break it.
func TestArbiter(t *testing.T) {
	t.Parallel()
	partitioned := `ALTER TABLE tool_dedup RENAME TO plain_dedup; ALTER TABLE plain_dedup RENAME CONSTRAINT tool_dedup_pkey TO plain_dedup_pkey;
		CREATE TABLE tool_dedup (LIKE plain_dedup, CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)) PARTITION BY HASH (scope); `
	swallow := `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; `
	for name, c := range map[string]struct{ spoil, repair, says string }{
		"Missing": {
			spoil:  `ALTER TABLE tool_dedup RENAME TO gone`,
			repair: `ALTER TABLE gone RENAME TO tool_dedup`,
			says:   "there is no table",
		},
		"NoPrimaryKey": {
			spoil:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey`,
			repair: `ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)`,
			says:   "primary key",
		},
		"SwallowingTrigger": {
			spoil:  swallow + `CREATE TRIGGER s BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`,
			repair: `DROP TRIGGER s ON tool_dedup`,
			says:   "trigger",
		},
		"SwallowingTriggerOfAPartition": {
			spoil: swallow + partitioned + `CREATE TABLE part PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 1, REMAINDER 0);
				CREATE TRIGGER s BEFORE INSERT ON part FOR EACH ROW EXECUTE FUNCTION swallow()`,
			repair: `DROP TRIGGER s ON part`,
			says:   "trigger",
		},
		"SwallowingRule": {
			spoil:  `CREATE RULE s AS ON INSERT TO tool_dedup DO INSTEAD NOTHING`,
			repair: `DROP RULE s ON tool_dedup`,
			says:   "rule",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, b := setup(t, nil)
			b.exec(t, c.spoil)

			for _, of := range []dedup.Call{call("k"), lookFirst("k")} {
				_, err := dedup.Do(ctx, b.d, of, effect("k"))
				require.ErrorIs(t, err, dedup.ErrSchema)
				require.ErrorContains(t, err, c.says)
			}
			err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, b.d, tx, call("k"), effect("k"))
				require.ErrorIs(t, err, dedup.ErrSchema)
				return nil // the caller's transaction is sound
			})
			require.NoError(t, err)
			require.Zero(t, b.effects(t, "k"))

			b.exec(t, c.repair)
			_, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
			require.NoError(t, err)
			require.Equal(t, 1, b.effects(t, "k"))
		})
	}
}

// With ClaimFirst the record is written by an upsert of the claim.
func TestClaimFirstAndTriggerOfUpdates(t *testing.T) {
	t.Parallel()
	for _, order := range []orderKind{lockFirst, claimFirst} {
		ctx, f := profile{order: order, isolation: pgx.ReadCommitted}.setup(t, nil)
		f.exec(t, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
		f.exec(t, `CREATE TRIGGER swallow BEFORE UPDATE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`)
		_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
		if order == lockFirst {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, dedup.ErrSchema)
		require.Zero(t, f.effects(t, "k"))
	}
}

// TestArbiterWithoutUsage: a role that may not look into the schema gets an error that says so,
// and the caller's transaction goes on.
func TestArbiterWithoutUsage(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, &dedup.Options{Schema: "hidden"})
		f.exec(t, `CREATE SCHEMA hidden`)
		role := f.role(t)
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SET LOCAL ROLE `+role)
		require.NoError(t, err)
		e := &tool{ref: "k"}
		_, err = dedup.DoTx(ctx, f.d, tx, call("k"), e.run)
		require.ErrorIs(t, err, dedup.ErrSchema)
		e.requireRuns(t, 0)
		_, err = tx.Exec(ctx, `RESET ROLE`)
		require.NoError(t, err)
		requireUsable(t, ctx, tx)
		require.NoError(t, tx.Commit(ctx))
		require.Equal(t, 1, f.effects(t, "after"))
	})
}

// partition makes tool_dedup a table with two hash partitions.
func (b *bundle) partition(t *testing.T) {
	t.Helper()
	for _, sql := range []string{
		`ALTER TABLE tool_dedup RENAME TO flat`,
		`CREATE TABLE tool_dedup (LIKE flat INCLUDING DEFAULTS INCLUDING CONSTRAINTS, PRIMARY KEY (scope, tool, key)) PARTITION BY HASH (scope)`,
		`CREATE TABLE tool_dedup_0 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 0)`,
		`CREATE TABLE tool_dedup_1 PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
	} {
		b.exec(t, sql)
	}
}

// TestPartitioned: errors name the partition and not the table, and mean the
// same.
func TestPartitioned(t *testing.T) {
	t.Parallel()

	t.Run("EffectEndsItsTx", func(t *testing.T) {
		t.Parallel()
		bothOrders(t, func(t *testing.T, p profile) {
			ctx, f := p.setup(t, nil)
			f.partition(t)
			e := &tool{ref: "k", then: func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Conn().Exec(ctx, "commit; begin")
				return err
			}}
			for range 2 {
				_, err := dedup.Do(ctx, f.d, call("k"), e.run)
				require.ErrorIs(t, err, dedup.ErrBroken)
			}
			e.requireRuns(t, 1)
			require.Equal(t, 1, f.effects(t, "k"))
		})
	})

	t.Run("LostRace", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		f.partition(t)
		e := &tool{ref: "k", then: func(ctx context.Context, _ pgx.Tx, _ int) error {
			return f.rival(ctx, call("k"), "k", ticket{ID: 99})
		}}
		got, err := dedup.Do(ctx, f.d, call("k"), e.run)
		require.NoError(t, err)
		require.True(t, got.Replayed)
		require.Equal(t, 99, got.Value.ID)
		require.Equal(t, 1, f.effects(t, "k"))
	})
}

// TestTwinWithoutItsLock: a caller's transaction has more calls than it takes locks
// for, and has written the record of one without. Its twins meet that record when they
// write their own, and wait there for no longer than their MaxWait.
func TestTwinWithoutItsLock(t *testing.T) {
	t.Parallel()

	inTx := func(t *testing.T, ctx context.Context, f *fixture, c dedup.Call) error {
		tx := f.begin(t, ctx)
		_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '3min'`)
		require.NoError(t, err)
		_, err = dedup.DoTx(ctx, f.d, tx, c, effect("k"))
		requireUsable(t, ctx, tx)
		own := call("another")
		own.MaxWait = c.MaxWait
		_, errOwn := dedup.DoTx(ctx, f.d, tx, own, effect("own"))
		require.NoError(t, errOwn)
		var left string
		require.NoError(t, tx.QueryRow(ctx, `SHOW lock_timeout`).Scan(&left))
		require.Equal(t, "3min", left)
		require.NoError(t, tx.Rollback(ctx))
		return err
	}
	for _, name := range append(slices.Collect(maps.Keys(ways)), "DoTx") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, f := plain.setup(t, &dedup.Options{CommitTimeout: time.Minute})
			tx := f.begin(t, ctx)
			_, err := tx.Exec(ctx, `SELECT set_config('tool_dedup.locks', '256', true)`)
			require.NoError(t, err)
			_, err = dedup.DoTx(ctx, f.peer(t), tx, call("k"), effect("k"))
			require.NoError(t, err)
			makes := func(wait time.Duration) error {
				c := call("k")
				c.MaxWait = wait
				if name == "DoTx" {
					return inTx(t, ctx, f, c)
				}
				_, err := ways[name](ctx, f.d, c)
				return err
			}

			ctx, cancel := context.WithTimeout(ctx, 50*time.Second)
			defer cancel()
			for _, wait := range []time.Duration{-1, 20 * time.Millisecond} {
				err := makes(wait)
				require.ErrorIs(t, err, dedup.ErrInFlight)
				require.NotErrorIs(t, err, dedup.ErrOutcomeUnknown)
			}

			require.NoError(t, tx.Commit(ctx))
			require.NoError(t, makes(-1))
			require.Equal(t, 1, f.effects(t, "k"))
		})
	}
}

// TestRefusalThatCannotBeCommitted: a constraint that refuses every record at COMMIT also refuses
// the record of a stored error. Its error is not recorded as a second refusal.
func TestRefusalThatCannotBeCommitted(t *testing.T) {
	t.Parallel()

	bothOrders(t, func(t *testing.T, p profile) {
		ctx, f := p.setup(t, nil)
		f.exec(t, `CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
		f.exec(t, `CREATE CONSTRAINT TRIGGER no AFTER INSERT OR UPDATE ON tool_dedup DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no()`)
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // it was tried for as long as the context allowed
		defer cancel()
		e := &tool{ref: "k"}
		result, err := dedup.Do(ctx, f.d, storing("k"), e.run)
		requireState(t, err, "P0001")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2, result.Attempts)
		e.requireRuns(t, 1)
		require.Zero(t, f.effects(t, "k"))
		require.Zero(t, f.records(t))
	})
}
