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

// errNoAnswer is wrapped by the errors of deliver after which the delivery has
// to be sent again: its process ended, or reported that it has no answer.
var errNoAnswer = errors.New("no answer")

var (
	errNone = errors.New("no process runs")
	errLate = errors.New("the time is up")
)

const (
	// answerWait is how long a delivery may take. Only a defect takes longer; the
	// process is killed then, so that a replay ends.
	answerWait = time.Minute
	// closeWait is how long a process may take to end by itself.
	closeWait = 2 * time.Second
)

// place is where one worker process after another works. The fault-injecting proxy between it and the database,
// and the one before it, stay when the process is killed and another one takes over. One place takes one delivery
// at a time.
type place struct {
	lab.Worker
	name   string
	proxy  *faultproxy.Proxy
	front  *lab.HTTPProxy
	client *worker.Client

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
	p := &place{name: task.Name, proxy: proxy}
	p.Command, p.Task = command, task
	p.front = &lab.HTTPProxy{Next: p.mishap, To: func(ctx context.Context) ([]string, error) {
		address, err := p.address(ctx)
		return []string{address}, err
	}}
	p.front.Start()
	p.client = worker.Dial(task.Way, p.front.URL())
	if _, err := p.Present(); err != nil {
		p.close()
		return nil, fmt.Errorf("starting %s: %w", task.Name, err)
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

func (p *place) address(ctx context.Context) (string, error) {
	process := p.Running()
	if process == nil {
		return "", errNone
	}
	return process.Addr(ctx)
}

// deliver sends a delivery to the process, starting one where there is none, and waits for its answer.
// An error is ctx's or wraps errNoAnswer; the answer beside it is empty where the process has not said why.
func (p *place) deliver(ctx context.Context, d worker.Delivery) (worker.Answer, error) {
	if _, err := p.Present(); err != nil {
		return worker.Answer{}, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, answerWait, errLate)
	defer cancel()
	answer, err := p.client.Deliver(limited, d)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return worker.Answer{}, ctx.Err()
	case errors.Is(context.Cause(limited), errLate):
		p.Kill()
		return worker.Answer{}, fmt.Errorf("%w within %s; the process was killed", errNoAnswer, answerWait)
	}
	return answer, fmt.Errorf("%w: %w", errNoAnswer, err)
}

// scrape returns the page of metrics of the present process, nil where none runs. What a process counted that
// was killed is gone with it.
func (p *place) scrape(ctx context.Context) ([]byte, error) {
	address, err := p.address(ctx)
	if errors.Is(err, errNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("scraping %s: %w", p.name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, page, err := lab.Fetch(ctx, web, http.MethodGet, "http://"+address+"/metrics", nil, nil)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("scraping %s: %w", p.name, err)
	}
	return page, nil
}

// close ends the process, by force where it does not end by itself within a moment, and the proxies.
func (p *place) close() {
	p.client.Close()
	_ = p.Close(closeWait) // it may be killed
	p.front.Close()
	p.proxy.Close()
}
