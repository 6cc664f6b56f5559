package figure_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

func TestTable(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	tab := figure.NewTable("what", "16× number")
	tab.Row("a", "-1,234,567")
	tab.Row("bcdef", "1")
	tab.Row("g")
	tab.Write(&out)
	require.Equal(t, "  what   16× number\n  -----  ----------\n  a      -1,234,567\n  bcdef           1\n  g\n\n", out.String())
}
