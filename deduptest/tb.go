package deduptest

import "context"

// TB is what [Verify] needs of a testing.TB, which is one.
type TB interface {
	// Helper marks the caller as a helper, so that lines of the test are told.
	Helper()
	// Context ends what Verify does when it ends.
	Context() context.Context
	// Logf says how a scenario went.
	Logf(format string, args ...any)
	// Errorf tells of a scenario that failed; the others are still run.
	Errorf(format string, args ...any)
	// Fatalf says why nothing could be tried. It need not return.
	Fatalf(format string, args ...any)
}
