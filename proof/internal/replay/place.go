package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	errClosed = errors.New("the place is closed")
	errNone   = errors.New("no process runs")
	errLate   = errors.New("the time is up")
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
	command process.Command
	task    worker.Task
	proxy   *faultproxy.Proxy
	front   *lab.HTTPProxy
	web     *http.Transport

	mu      sync.Mutex
	process *lab.Server // the present one or the last
	client  worker.Client
	next    func() *lab.HTTPMishap // what befalls the next delivery
	started int
	closed  bool
}

// newPlace starts a process, with the task, at the database that the task names.
func newPlace(command process.Command, task worker.Task) (*place, error) {
	proxy, err := faultproxy.New(task.DatabaseURL)
	if err != nil {
		return nil, fmt.Errorf("starting the proxy of %s: %w", task.Name, err)
	}
	task.DatabaseURL = proxy.URL()
	p := &place{command: command, task: task, proxy: proxy, web: &http.Transport{DisableKeepAlives: true}}
	p.front = &lab.HTTPProxy{Next: p.mishap, To: func(ctx context.Context) ([]string, error) {
		address, err := p.address(ctx)
		return []string{address}, err
	}}
	p.front.Start()
	if _, err := p.alive(); err != nil {
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

// alive returns a client of the present process, and starts one where it has ended.
func (p *place) alive() (worker.Client, error) {
	p.mu.Lock()
	client, old, err := p.revive()
	p.mu.Unlock()
	if old != nil {
		old.Close() // it may ask the front, which asks for the lock
	}
	return client, err
}

func (p *place) revive() (client, old worker.Client, err error) {
	if p.closed {
		return nil, nil, errClosed
	}
	if p.process != nil && !p.process.Ended() {
		return p.client, nil, nil
	}
	started, err := lab.StartServer(p.command, p.task)
	if err != nil {
		return nil, nil, fmt.Errorf("starting %s: %w", p.task.Name, err)
	}
	old = p.client
	p.process, p.client = started, p.task.Way.Dial(p.front.URL())
	p.started++
	return p.client, old, nil
}

// deliver sends a delivery to the process, starting one where there is none, and waits for its answer.
// An error is ctx's or wraps errNoAnswer; the answer beside it is empty where the process has not said why.
func (p *place) deliver(ctx context.Context, d worker.Delivery) (worker.Answer, error) {
	client, err := p.alive()
	if err != nil {
		return worker.Answer{}, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	limited, cancel := context.WithTimeoutCause(ctx, answerWait, errLate)
	defer cancel()
	answer, err := client.Deliver(limited, d)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return worker.Answer{}, ctx.Err()
	case errors.Is(context.Cause(limited), errLate):
		p.kill()
		return worker.Answer{}, fmt.Errorf("%w within %s; the process was killed", errNoAnswer, answerWait)
	}
	// A process that answers nothing at all is of no use, or is about to end.
	if _, _, silent := p.get(limited, "/alive"); silent != nil && !errors.Is(silent, errNone) && limited.Err() == nil {
		p.kill()
	}
	return answer, fmt.Errorf("%w: %w", errNoAnswer, err)
}

// present returns the process that runs, nil where none does.
func (p *place) present() *lab.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.process.Ended() {
		return nil
	}
	return p.process
}

func (p *place) address(ctx context.Context) (string, error) {
	process := p.present()
	if process == nil {
		return "", errNone
	}
	return process.Addr(ctx)
}

// kill ends the process with SIGKILL and returns when it is gone. It reports false where there was none.
func (p *place) kill() bool {
	process := p.present()
	if process == nil {
		return false
	}
	process.Kill()
	return true
}

// scrape returns the page of metrics of the present process, nil where none runs. What a process counted that
// was killed is gone with it.
func (p *place) scrape(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	status, page, err := p.get(ctx, "/metrics")
	switch {
	case errors.Is(err, errNone):
		return nil, nil
	case err == nil && status != http.StatusOK:
		err = errors.New(http.StatusText(status))
	}
	if err != nil {
		return nil, fmt.Errorf("scraping %s: %w", p.task.Name, err)
	}
	return page, nil
}

// get asks the present process.
func (p *place) get(ctx context.Context, path string) (status int, page []byte, err error) {
	address, err := p.address(ctx)
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return 0, nil, err
	}
	response, err := p.web.RoundTrip(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	page, err = io.ReadAll(response.Body)
	return response.StatusCode, page, err
}

// close ends the process, by force where it does not end by itself within a moment, and the proxies.
func (p *place) close() {
	p.mu.Lock()
	p.closed = true
	process, client := p.process, p.client
	p.mu.Unlock()
	if client != nil {
		client.Close()
	}
	if process != nil {
		process.Close(closeWait)
	}
	p.front.Close()
	p.proxy.Close()
}
