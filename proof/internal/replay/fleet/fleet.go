// Package fleet runs the worker processes of a replay. Each has a place of its
// own with a fault-injecting proxy between it and the server; the place and its
// proxy stay when the process is killed and another one takes over.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// ErrNoAnswer is wrapped by the errors of Deliver after which the delivery has
// to be sent again: its process ended, or reported that it has no answer.
var ErrNoAnswer = errors.New("no answer")

// Config says what a fleet is made of.
type Config struct {
	process.Command // starts a worker
	worker.Setup
	// Size is the number of workers.
	Size int
	// DatabaseURLs are the servers' own; the workers take them in turn, and get their proxy's.
	DatabaseURLs []string
}

// Fleet is Config.Size places. Its methods may be called from any goroutine,
// but one place takes one delivery at a time.
type Fleet struct {
	places []*place
}

// Start starts a process and a proxy for each place. Close ends them.
func Start(cfg Config) (*Fleet, error) {
	f := &Fleet{}
	for i := range cfg.Size {
		p, err := newPlace(&cfg, cfg.DatabaseURLs[i%len(cfg.DatabaseURLs)], fmt.Sprintf("dedup-replay-%d", i+1))
		if err != nil {
			f.Close()
			return nil, err
		}
		f.places = append(f.places, p)
	}
	return f, nil
}

// Deliver sends a delivery to the process of a place, starting one where there
// is none, and waits for its answer. An error is ctx's or wraps ErrNoAnswer; the answer beside
// it is empty where the process has not said why.
func (f *Fleet) Deliver(ctx context.Context, at int, d worker.Delivery) (worker.Answer, error) {
	process, err := f.places[at].alive()
	if err != nil {
		return worker.Answer{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return process.deliver(ctx, d)
}

// Scrape returns the page of metrics of every process that runs. What a process counted that
// was killed is gone with it.
func (f *Fleet) Scrape(ctx context.Context) (pages [][]byte, err error) {
	for _, p := range f.places {
		process := p.present()
		if process == nil {
			continue
		}
		page, err := process.scrape(ctx)
		if err != nil {
			return nil, fmt.Errorf("scraping %s: %w", p.hello.Name, err)
		}
		pages = append(pages, page)
	}
	return pages, nil
}

// Wire returns the driver's end of the connections to the processes of a place.
func (f *Fleet) Wire(at int) *wire.Transport { return f.places[at].wire }

// Kill ends the process of a place with SIGKILL and returns when it is gone.
// It reports false where there was none.
func (f *Fleet) Kill(at int) bool { return f.places[at].kill() }

// KillNamed is Kill for the place whose connections have an application_name.
func (f *Fleet) KillNamed(name string) bool {
	for at := range f.places {
		if f.Name(at) == name {
			return f.Kill(at)
		}
	}
	return false
}

// Proxy returns the proxy of a place.
func (f *Fleet) Proxy(at int) *faultproxy.Proxy { return f.places[at].proxy }

// Name returns the application_name of the connections of a place.
func (f *Fleet) Name(at int) string { return f.places[at].hello.Name }

// Processes returns how many processes were started.
func (f *Fleet) Processes() int {
	sum := 0
	for _, p := range f.places {
		sum += p.starts()
	}
	return sum
}

// Close ends all processes, by force those that do not end by themselves within
// a moment, and all proxies.
func (f *Fleet) Close() {
	var closing sync.WaitGroup
	for _, p := range f.places {
		closing.Go(p.close)
	}
	closing.Wait()
}
