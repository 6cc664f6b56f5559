package outside

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
)

// restarts counts those of each server.
type restarts struct {
	going  chan struct{} // closed when they may begin
	mu     sync.Mutex
	counts map[*lab.Lab]map[string]int
}

func (r *restarts) begin() { close(r.going) }

func (r *restarts) of(l *lab.Lab) map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[l]
}

// restartServers restarts the servers of trials every now and then, immediately and fast
// in turn, from when they may begin until stop is called. It says when one does not come back.
func restartServers(ctx context.Context, group []*trial, failed context.CancelCauseFunc) (r *restarts, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	r = &restarts{going: make(chan struct{}), counts: map[*lab.Lab]map[string]int{}}
	var all sync.WaitGroup
	for _, t := range group {
		if r.counts[t.lab] != nil {
			continue
		}
		r.counts[t.lab] = map[string]int{}
		all.Go(func() {
			if err := r.run(ctx, t.lab, t.form.restartEvery); err != nil {
				failed(err)
			}
		})
	}
	return r, func() {
		cancel()
		all.Wait()
	}
}

func (r *restarts) run(ctx context.Context, l *lab.Lab, every time.Duration) error {
	select {
	case <-r.going:
	case <-ctx.Done():
		return nil
	}
	for n, pause := 0, every/3; wait(ctx, pause) == nil; n, pause = n+1, every {
		kind, by := "restart immediate", signalImmediate
		if n%2 == 1 {
			kind, by = "restart fast", signalFast
		}
		// Not within ctx: a server that is being restarted has to come back.
		if err := restart(context.WithoutCancel(ctx), l.Server, func(pid int) error { return signal(pid, by) }); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		r.mu.Lock()
		r.counts[l][kind]++
		r.mu.Unlock()
	}
	return nil
}

// shutdownWait is how long a server may take to shut down before it is killed.
const shutdownWait = 10 * time.Second

func restart(ctx context.Context, s *pgserver.Server, shut func(pid int) error) error {
	if pid := s.PID(); pid != 0 {
		if err := shut(pid); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, shutdownWait)
	defer cancel()
	for s.PID() != 0 && wait(waiting, 10*time.Millisecond) == nil {
	}
	return s.Restart(ctx) // which kills it where it still runs
}
