package scale

import (
	"testing"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// setup is a database to measure in. Its server keeps no promise to the disk:
// tests look at counts and never at times.
func setup(t *testing.T) stand {
	t.Helper()
	return stand{url: pgtest.NewEmpty(t).URL, out: t.Output(), say: t.Logf}
}
