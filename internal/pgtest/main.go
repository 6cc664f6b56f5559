package pgtest

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tooldedup/dedup/internal/pgserver"
)

// stopWait bounds the end of a test process: closing connections and stopping
// the server.
const stopWait = 30 * time.Second

// process is the cluster of this test process. A test has nothing in its hands
// but its testing.TB, so the server that the tests share has to be kept here.
var process = newProcessCluster()

func newProcessCluster() *cluster {
	c := newCluster(&pgserver.Options{
		Logf: func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "pgtest: "+format+"\n", args...)
		},
	})
	// syscall: a result does not depend on the server, and so it stays in the cache of go test.
	c.shared, _ = syscall.Getenv(sharedServer)
	return c
}

// Main runs the tests, stops the server if one was started, checks that no
// goroutine is left but those that ignored names, and exits. A goroutine that is left fails the
// run. Call it from TestMain.
func Main(m *testing.M, ignored ...goleak.Option) {
	os.Exit(run(m, process, os.Stderr, ignored...))
}

// runner is the part of a *testing.M that run uses.
type runner interface{ Run() int }

// printer is where run reports what failed after the tests.
type printer interface{ WriteString(string) (int, error) }

func run(m runner, c *cluster, out printer, ignored ...goleak.Option) (code int) {
	c.open()
	code = m.Run()

	ctx, cancel := context.WithTimeout(context.Background(), stopWait)
	defer cancel()
	if err := c.close(ctx); err != nil {
		_, _ = out.WriteString(fmt.Sprintf("pgtest: %v\n", err))
		code = max(code, 1)
	}
	// After a failure goroutines of the failed tests are to be expected, and
	// would only hide the failure.
	if code != 0 {
		return code
	}
	if err := goleak.Find(append(c.ignoredGoroutines(), ignored...)...); err != nil {
		_, _ = out.WriteString(fmt.Sprintf("pgtest: after the tests: %v\n", err))
		return 1
	}
	return 0
}
