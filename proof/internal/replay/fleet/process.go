package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// closeWait is how long a process may take to end by itself.
const closeWait = 2 * time.Second

// process is one worker process.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan worker.Answer
	done    chan struct{} // closed when the process has been waited for

	way     worker.Way
	wire    *wire.Transport
	metrics bool

	writing sync.Mutex // guards in
	dialing sync.Mutex // guards client and address
	client  worker.Client
	address string
}

func startProcess(cfg *Config, hello worker.Hello, wire *wire.Transport) (*process, error) {
	cmd := exec.Command(cfg.Program, cfg.Args...)
	cmd.Stderr = cfg.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{
		cmd: cmd, in: in, answers: make(chan worker.Answer, 1), done: make(chan struct{}),
		way: hello.Way, wire: wire, metrics: hello.Metrics,
	}
	go p.read(out)
	if err := p.write(hello); err != nil {
		p.kill()
		return nil, fmt.Errorf("greeting: %w", err)
	}
	return p, nil
}

// read passes answers on until the process has ended. There is at most one
// answer that nobody has taken.
func (p *process) read(out io.Reader) {
	defer close(p.done)
	lines := json.NewDecoder(out)
	for {
		var answer worker.Answer
		if err := lines.Decode(&answer); err != nil {
			break
		}
		select {
		case <-p.answers: // of a delivery that was given up
		default:
		}
		p.answers <- answer
	}
	_ = p.cmd.Process.Kill() // it may have written nonsense and live
	_ = p.cmd.Wait()
}

func (p *process) write(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.in.Write(append(text, '\n'))
	return err
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process with SIGKILL and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// close ends the process by ending its input.
func (p *process) close() {
	p.hangUp()
	_ = p.in.Close()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}
