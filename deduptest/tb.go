package deduptest

import "context"

// TB is the part of testing.TB that [Verify] uses.
type TB interface {
	// Helper marks the caller as a helper, so that failures show the test's line.
	Helper()
	// Context bounds the run of Verify.
	Context() context.Context
	// Logf logs the result of a scenario.
	Logf(format string, args ...any)
	// Errorf reports a scenario that failed; the others still run.
	Errorf(format string, args ...any)
	// Fatalf reports why nothing could be tested. It need not stop the goroutine.
	Fatalf(format string, args ...any)
}
