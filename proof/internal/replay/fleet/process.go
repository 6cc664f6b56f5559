package fleet

import (
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// closeWait is how long a process may take to end by itself.
const closeWait = 2 * time.Second

// workerProcess is one worker process.
type workerProcess struct {
	*process.Process
	answers chan worker.Answer // at most one that was not taken

	way     worker.Way
	wire    *wire.Transport
	metrics bool

	dialing sync.Mutex // guards client and address
	client  worker.Client
	address string
}

func startProcess(cfg *Config, hello worker.Hello, wire *wire.Transport) (p *workerProcess, err error) {
	p = &workerProcess{answers: make(chan worker.Answer, 1), way: hello.Way, wire: wire, metrics: hello.Metrics}
	p.Process, err = process.Start(cfg.Command, hello, func(answer worker.Answer) {
		select {
		case <-p.answers: // of a delivery that was given up
		default:
		}
		p.answers <- answer
	})
	return p, err
}

// close ends the process by ending its input.
func (p *workerProcess) close() {
	p.hangUp()
	p.Close(closeWait)
}
