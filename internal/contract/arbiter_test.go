package contract_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestArbiter: a table that would let an effect be committed twice, or without
// its record, is refused before the first effect is run, and taken once it is
// mended.
func TestArbiter(t *testing.T) {
	t.Parallel()
	partitioned := `ALTER TABLE tool_dedup RENAME TO plain_dedup; ALTER TABLE plain_dedup RENAME CONSTRAINT tool_dedup_pkey TO plain_dedup_pkey;
		CREATE TABLE tool_dedup (LIKE plain_dedup, CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)) PARTITION BY HASH (scope); `
	swallow := `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; `
	for name, c := range map[string]struct{ spoil, mend, says string }{
		"Missing": {
			spoil: `ALTER TABLE tool_dedup RENAME TO gone`,
			mend:  `ALTER TABLE gone RENAME TO tool_dedup`,
			says:  "does not exist",
		},
		"NoPrimaryKey": {
			spoil: `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey`,
			mend:  `ALTER TABLE tool_dedup ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)`,
			says:  "primary key",
		},
		"PrimaryKeyWithoutScope": {
			spoil: `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (tool, key)`,
			mend:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)`,
			says:  "primary key",
		},
		"PrimaryKeyWithTime": {
			spoil: `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key, created_at)`,
			mend:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)`,
			says:  "primary key",
		},
		"DeferrablePrimaryKey": {
			spoil: `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key) DEFERRABLE`,
			mend:  `ALTER TABLE tool_dedup DROP CONSTRAINT tool_dedup_pkey, ADD CONSTRAINT tool_dedup_pkey PRIMARY KEY (scope, tool, key)`,
			says:  "not deferrable",
		},
		"Unlogged": {
			spoil: `ALTER TABLE tool_dedup SET UNLOGGED`,
			mend:  `ALTER TABLE tool_dedup SET LOGGED`,
			says:  "UNLOGGED",
		},
		"SwallowingTrigger": {
			spoil: swallow + `CREATE TRIGGER s BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`,
			mend:  `DROP TRIGGER s ON tool_dedup`,
			says:  "trigger",
		},
		"SwallowingTriggerOfAPartition": {
			spoil: swallow + partitioned + `CREATE TABLE part PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 1, REMAINDER 0);
				CREATE TRIGGER s BEFORE INSERT ON part FOR EACH ROW EXECUTE FUNCTION swallow()`,
			mend: `DROP TRIGGER s ON part`,
			says: "trigger",
		},
		"UnloggedPartition": {
			spoil: partitioned + `CREATE UNLOGGED TABLE part PARTITION OF tool_dedup FOR VALUES WITH (MODULUS 1, REMAINDER 0)`,
			mend:  `ALTER TABLE part SET LOGGED`,
			says:  "UNLOGGED",
		},
		"SwallowingRule": {
			spoil: `CREATE RULE s AS ON INSERT TO tool_dedup DO INSTEAD NOTHING`,
			mend:  `DROP RULE s ON tool_dedup`,
			says:  "rule",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, b := setup(t, nil)
			b.exec(t, c.spoil)

			_, err := dedup.Do(ctx, b.d, call("k"), effect("k"))
			require.ErrorIs(t, err, dedup.ErrArbiter)
			require.ErrorContains(t, err, c.says)
			err = pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
				_, err := dedup.DoTx(ctx, b.d, tx, call("k"), effect("k"))
				require.ErrorIs(t, err, dedup.ErrArbiter)
				return nil // the caller's transaction is sound
			})
			require.NoError(t, err)
			require.Zero(t, b.effects(t, "k"))

			b.exec(t, c.mend)
			_, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
			require.NoError(t, err)
			require.Equal(t, 1, b.effects(t, "k"))
		})
	}

	// What is added later is told after the fact, once.
	t.Run("SwallowedLater", func(t *testing.T) {
		t.Parallel()
		ctx, b := setup(t, nil)
		_, err := dedup.Do(ctx, b.d, call("before"), effect("before"))
		require.NoError(t, err)
		b.exec(t, swallow+`CREATE TRIGGER s BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`)

		_, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
		require.ErrorIs(t, err, dedup.ErrBroken)
		require.ErrorContains(t, err, "swallowed")
		for range 3 {
			_, err = dedup.Do(ctx, b.d, call("k"), effect("k"))
			require.ErrorIs(t, err, dedup.ErrArbiter)
		}
		require.Equal(t, 1, b.effects(t, "k"))
	})
}

// With ClaimFirst the record is written by an upsert of the claim.
func TestClaimFirstAndTriggerOfUpdates(t *testing.T) {
	t.Parallel()
	for _, order := range []dedup.Order{dedup.LockFirst, dedup.ClaimFirst} {
		ctx, f := variant{order: order, isolation: pgx.ReadCommitted}.setup(t, nil)
		f.exec(t, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
		f.exec(t, `CREATE TRIGGER swallow BEFORE UPDATE ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`)
		_, err := dedup.Do(ctx, f.d, call("k"), effect("k"))
		if order == dedup.LockFirst {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, dedup.ErrArbiter)
		require.Zero(t, f.effects(t, "k"))
	}
}
