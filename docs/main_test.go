// Package docs_test compiles and runs what the documents show, and compares what they say
// with the code.
package docs_test

import (
	"os"
	"testing"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// TestMain runs the tests in the root, from which the documents name files.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	pgtest.Main(m)
}
