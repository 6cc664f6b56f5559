package contract_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(stormEnv); url != "" {
		if err := stormProcess(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	pgtest.Main(m)
}
