package riverdedup_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) {
	if settings := os.Getenv(asChild); settings != "" {
		if err := runChild(settings); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	pgtest.Main(m)
}
