package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
)

// TestStatementSwallowed: a record that a trigger swallows, which came when the
// table was trusted, blocks its identity, and the table is trusted no longer.
func TestStatementSwallowed(t *testing.T) {
	t.Parallel()

	type row struct {
		Ref string `json:"ref"`
	}
	ctx, b := setup(t, nil)
	insert := func(key string) error {
		_, err := dedup.DoStatement[row](ctx, b.d, call(key), dedup.SQL(`INSERT INTO effects (ref) VALUES ($1) RETURNING ref`, key))
		return err
	}
	require.NoError(t, insert("warm"))
	require.NoError(t, insert("as one statement"))
	b.exec(t, `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
	b.exec(t, `CREATE TRIGGER swallow BEFORE INSERT ON tool_dedup FOR EACH ROW EXECUTE FUNCTION swallow()`)

	require.ErrorIs(t, insert("k"), dedup.ErrBroken)
	require.ErrorIs(t, insert("next"), dedup.ErrArbiter)
	require.Zero(t, b.effects(t, "next"))
}
