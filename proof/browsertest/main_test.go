package browsertest

import (
	"testing"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestConsole acts in the console as a person does.
func TestConsole(t *testing.T) {
	t.Parallel()
	inOneBrowser(t, map[string]func(*testing.T, *browser){
		"Faults":   testFaults,
		"Live":     testLive,
		"NoScript": testNoScript,
		"Reset":    testReset,
		"Resolve":  testResolve,
	})
}

// TestLongConsole looks at every page.
func TestLongConsole(t *testing.T) {
	t.Parallel()
	inOneBrowser(t, map[string]func(*testing.T, *browser){
		"Pages":         testPages,
		"OtherVisitors": testOtherVisitors,
		"Screenshots":   testScreenshots,
	})
}

func inOneBrowser(t *testing.T, tests map[string]func(*testing.T, *browser)) {
	t.Helper()
	b := start(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}
