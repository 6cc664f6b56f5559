package measure_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/proof/bench/internal/measure"
)

func TestTable(t *testing.T) {
	t.Parallel()

	var out bytes.Buffer
	table := measure.NewTable(&out, "what", "records", "ratio", "p50")
	table.Row("first", 1234567, 0.165, 12345*time.Microsecond)
	table.Row("of all", int64(1), 1234.5, time.Duration(0))
	table.Flush()
	require.Equal(t, `    what    records     ratio       p50
   first  1,234,567      0.17  12.35 ms
  of all          1  1,234.50   0.00 ms

`, out.String())
}
