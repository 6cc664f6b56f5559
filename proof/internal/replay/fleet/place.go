package fleet

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

var errClosed = errors.New("the fleet is closed")

// place is where one worker process after another works.
type place struct {
	cfg   *Config
	hello worker.Hello
	proxy *faultproxy.Proxy
	wire  *wire.Transport

	mu      sync.Mutex
	process *workerProcess // the present one or the last
	started int
	closed  bool
}

func newPlace(cfg *Config, databaseURL, name string) (*place, error) {
	proxy, err := faultproxy.New(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("starting the proxy of %s: %w", name, err)
	}
	p := &place{
		cfg: cfg, proxy: proxy, wire: wire.New(),
		hello: worker.Hello{DatabaseURL: proxy.URL(), Name: name, Setup: cfg.Setup},
	}
	if _, err := p.alive(); err != nil {
		proxy.Close()
		return nil, err
	}
	return p, nil
}

// alive returns the present process, and starts one where it has ended.
func (p *place) alive() (*workerProcess, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if p.process != nil && !p.process.Ended() {
		return p.process, nil
	}
	started, err := startProcess(p.cfg, p.hello, p.wire)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.hello.Name, err)
	}
	if p.process != nil {
		p.process.hangUp()
	}
	p.process = started
	p.started++
	return started, nil
}

// present returns the process that runs, nil where none does.
func (p *place) present() *workerProcess {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.process.Ended() {
		return nil
	}
	return p.process
}

func (p *place) kill() bool {
	process := p.present()
	if process == nil {
		return false
	}
	process.Kill()
	return true
}

func (p *place) starts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.started
}

func (p *place) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.process != nil {
		p.process.close()
	}
	p.wire.Close()
	p.proxy.Close()
}
