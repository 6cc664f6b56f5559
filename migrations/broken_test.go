package migrations_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// broken is a schema broken on purpose.
type broken struct {
	name string
	// sql breaks the schema of the migrations.
	sql string
	// want are the names of the problems that Check finds.
	want []string
	// left are those of them that no statement repairs.
	left []string
}

func TestCheckBroken(t *testing.T) {
	t.Parallel()

	var all []broken
	all = append(all, brokenTables()...)
	all = append(all, brokenColumns()...)
	all = append(all, brokenConstraints()...)
	all = append(all, brokenPartitions()...)
	all = append(all, brokenCitus()...)
	all = append(all, brokenLookalike()...)
	for _, tc := range all {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.New(t).Pool(t)
			exec(t, pool, tc.sql)

			found := problems(t, pool, nil)
			require.Equal(t, tc.want, names(found))
			require.Equal(t, tc.left, repair(t, pool, found))
			require.Equal(t, tc.left, names(problems(t, pool, nil)), "after the repair")
		})
	}
}
