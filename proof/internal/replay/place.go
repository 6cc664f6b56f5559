package replay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// closeWait is how long a process may take to end by itself.
const closeWait = 2 * time.Second

// place is where one worker process after another works. The fault-injecting proxy between it and the database,
// and the one before it, stay when the process is killed and another one takes over. One place takes one delivery
// at a time.
type place struct {
	seat   lab.Seat
	task   worker.Task
	proxy  *faultproxy.Proxy
	front  *lab.HTTPProxy
	client worker.Client

	mu   sync.Mutex
	next func() *lab.HTTPMishap // what befalls the next delivery
}

// newPlace starts a process, with the task, at the database that the task names.
func newPlace(command process.Command, task worker.Task) (*place, error) {
	proxy, err := faultproxy.New(task.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("starting the proxy of %s: %w", task.Name, err)
	}
	task.DatabaseURL = proxy.URL()
	p := &place{seat: lab.Seat{Command: command, Task: task}, task: task, proxy: proxy}
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

// meet says what befalls the next deliveries, until it is called again.
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

// deliver sends a delivery to the process and waits for its answer. The answer beside an error is empty where the
// process has not said why.
func (p *place) deliver(ctx context.Context, d worker.Delivery) (worker.Answer, error) {
	if _, err := p.seat.Server(); err != nil {
		return worker.Answer{}, err
	}
	return p.client.Deliver(ctx, d)
}

// scrape returns the process's page of metrics. What a process counted that was killed is gone with it.
func (p *place) scrape(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lab.Patience)
	defer cancel()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, page, err := lab.Ask(ctx, web, http.MethodGet, p.front.URL()+"/metrics", nil, nil)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("scraping %s: %w", p.task.Name, err)
	}
	return page, nil
}

// close ends the process, by force where it does not end by itself within a moment, and the proxies.
func (p *place) close() {
	p.client.Close()
	p.front.Close()
	p.seat.Close(closeWait)
	p.proxy.Close()
}
