package deduptest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

func TestDecidingUnit(t *testing.T) {
	t.Parallel()
	unit := func(commits bool, statements ...string) faultproxy.Unit {
		return faultproxy.Unit{Commits: commits, Executes: statements}
	}
	for name, test := range map[string]struct {
		units []faultproxy.Unit
		want  int
	}{
		"Do":              {[]faultproxy.Unit{unit(false, "begin"), unit(false, "INSERT INTO notes"), unit(true, "INSERT INTO tool_dedup", "commit")}, 3},
		"LastCommit":      {[]faultproxy.Unit{unit(true, "commit"), unit(true, "commit"), unit(false, "SELECT")}, 2},
		"OneStatement":    {[]faultproxy.Unit{unit(false, "WITH e AS (…) INSERT INTO tool_dedup"), unit(false, "SELECT 1")}, 1},
		"RecordNotLookup": {[]faultproxy.Unit{unit(false, "INSERT INTO tool_dedup"), unit(false, "SELECT FROM tool_dedup")}, 1},
		"NoDedup":         {[]faultproxy.Unit{unit(false, "SELECT"), unit(false, "INSERT INTO notes")}, 2},
	} {
		require.Equal(t, test.want, deciding(test.units), name)
	}
}

func TestNamesOfStatements(t *testing.T) {
	t.Parallel()
	p := plan{units: []faultproxy.Unit{{Executes: []string{"begin", "SELECT\n\t1"}}, {Executes: []string{"commit"}}}}
	require.Equal(t, "statement 1 of 2 (begin; SELECT 1)", p.name(1))
	require.Equal(t, "abc…", clipped("abcé", 4), "no half character")
	require.Equal(t, "abcé", clipped("abcé", 5))
}
