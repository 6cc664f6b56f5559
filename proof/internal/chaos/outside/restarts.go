package outside

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// shutdowns are the ways in which a server is restarted, in turn.
var shutdowns = []struct {
	kind string
	by   syscall.Signal
}{{"restart immediate", syscall.SIGQUIT}, {"restart fast", syscall.SIGINT}}

const (
	restartEvery = 10 * time.Second
	// shutdownWait is the time for a server to shut down before it is killed.
	shutdownWait = 10 * time.Second
)

// restartAgain restarts a server until ctx ends, and counts the restarts.
func restartAgain(ctx context.Context, s *pgserver.Server, count *lab.Arm) error {
	for n, pause := 0, restartEvery/3; lab.Pause(ctx, pause); n, pause = n+1, restartEvery {
		how := shutdowns[n%len(shutdowns)]
		// without ctx: the server must come back
		if err := restart(context.WithoutCancel(ctx), s, how.by); err != nil {
			return fmt.Errorf("%s: %w", how.kind, err)
		}
		count.Fault(how.kind, 1)
	}
	return nil
}

func restart(ctx context.Context, s *pgserver.Server, by syscall.Signal) error {
	server, err := os.FindProcess(s.PID())
	if err == nil {
		err = server.Signal(by)
	}
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, shutdownWait)
	defer cancel()
	for s.PID() != 0 && lab.Pause(waiting, 10*time.Millisecond) {
	}
	return s.Restart(ctx) // it kills a server that still runs
}
