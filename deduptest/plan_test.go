package deduptest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDecidingUnit(t *testing.T) {
	t.Parallel()
	unit := func(commits bool, statements ...string) Unit { return Unit{Commits: commits, Statements: statements} }
	for name, test := range map[string]struct {
		units []Unit
		want  int
	}{
		"Do":              {[]Unit{unit(false, "begin"), unit(false, "INSERT INTO notes"), unit(true, "INSERT INTO tool_dedup", "commit")}, 3},
		"LastCommit":      {[]Unit{unit(true, "commit"), unit(true, "commit"), unit(false, "SELECT")}, 2},
		"OneStatement":    {[]Unit{unit(false, "WITH e AS (…) INSERT INTO tool_dedup"), unit(false, "SELECT 1")}, 1},
		"RecordNotLookup": {[]Unit{unit(false, "INSERT INTO tool_dedup"), unit(false, "SELECT FROM tool_dedup")}, 1},
		"NoDedup":         {[]Unit{unit(false, "SELECT"), unit(false, "INSERT INTO notes")}, 2},
	} {
		require.Equal(t, test.want, deciding(test.units), name)
	}
}

func TestNamesOfStatements(t *testing.T) {
	t.Parallel()
	p := plan{units: []Unit{{Statements: []string{"begin", "SELECT\n\t1"}}, {Statements: []string{"commit"}}}}
	require.Equal(t, "statement 1 of 2 (begin; SELECT 1)", p.name(1))
	require.Equal(t, "abc…", clipped("abcé", 4), "no half character")
	require.Equal(t, "abcé", clipped("abcé", 5))
}
