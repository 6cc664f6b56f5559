package replay

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// closeWait is the time that a process has to end by itself.
const closeWait = 2 * time.Second

// place is a worker process and its replacements. Its proxies, before the database and before the
// process, outlive a killed process. A place takes one delivery at a time.
type place struct {
	name   string
	seat   lab.Seat
	proxy  *faultproxy.Proxy
	front  *lab.HTTPProxy
	client worker.Client

	mu   sync.Mutex
	next func() *lab.HTTPMishap // the fault of the next delivery
}

// newPlace starts a process with the task, on the task's database.
func newPlace(command process.Command, task worker.Task) (*place, error) {
	proxy, err := faultproxy.New(task.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("starting the proxy of %s: %w", task.Name, err)
	}
	task.DatabaseURL = proxy.URL()
	p := &place{name: task.Name, seat: lab.Seat{Command: command, Task: task}, proxy: proxy}
	p.front = &lab.HTTPProxy{Next: p.mishap, To: func(ctx context.Context) ([]string, error) {
		address, err := p.seat.Addr(ctx)
		return []string{address}, err
	}}
	p.front.Start()
	p.client = task.Way.Dial(p.front.URL())
	if _, err := p.seat.Server(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// meet sets the faults of the next deliveries, until it is called again.
func (p *place) meet(next func() *lab.HTTPMishap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = next
}

func (p *place) mishap() *lab.HTTPMishap {
	p.mu.Lock()
	next := p.next
	p.mu.Unlock()
	if next == nil {
		return nil
	}
	return next()
}

// deliver sends a delivery to the process and waits for its answer.
func (p *place) deliver(ctx context.Context, d worker.Delivery) (worker.Answer, error) {
	if _, err := p.seat.Server(); err != nil {
		return worker.Answer{}, err
	}
	return p.client.Deliver(ctx, d)
}

// close ends the process and the proxies. It kills a process that does not end in time.
func (p *place) close() {
	p.client.Close()
	p.front.Close()
	p.seat.Close(closeWait)
	p.proxy.Close()
}
