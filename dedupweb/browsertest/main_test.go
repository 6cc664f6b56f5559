package browsertest

import (
	"testing"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestConsole looks at the console in one browser, which all of its tests share.
func TestConsole(t *testing.T) {
	t.Parallel()

	b := start(t)
	for name, test := range map[string]func(*testing.T, *browser){
		"Faults":      testFaults,
		"Hidden":      testHidden,
		"Live":        testLive,
		"NoScript":    testNoScript,
		"Reset":       testReset,
		"Resolve":     testResolve,
		"OtherSites":  testOtherSites,
		"NoAccess":    testNoAccess,
		"Pages":       testPages,
		"Screenshots": testScreenshots,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}
