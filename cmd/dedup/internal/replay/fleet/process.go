package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/tooldedup/dedup/cmd/dedup/internal/replay/worker"
)

const (
	// closeWait is how long a process may take to end by itself.
	closeWait = 2 * time.Second

	// answerWait is how long a delivery may take. Only a defect takes longer;
	// the process is killed then, so that a replay ends.
	answerWait = time.Minute
)

// process is one worker process.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan worker.Answer
	done    chan struct{} // closed when the process has been waited for

	mu sync.Mutex // guards writes to in
}

func startProcess(cfg *Config, hello worker.Hello) (*process, error) {
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
	p := &process{cmd: cmd, in: in, answers: make(chan worker.Answer, 1), done: make(chan struct{})}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.in.Write(append(text, '\n'))
	return err
}

func (p *process) deliver(ctx context.Context, d worker.Delivery) (worker.Answer, error) {
	if err := p.write(d); err != nil {
		p.kill() // a process that does not listen is of no use
		return worker.Answer{}, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	late := time.NewTimer(answerWait)
	defer late.Stop()
	for {
		select {
		case answer := <-p.answers:
			if answer.ID != d.ID {
				continue
			}
			if answer.Error != "" {
				return answer, fmt.Errorf("%w: %s", ErrNoAnswer, answer.Error)
			}
			return answer, nil
		case <-p.done:
			return worker.Answer{}, fmt.Errorf("%w: the process ended", ErrNoAnswer)
		case <-late.C:
			p.kill()
			return worker.Answer{}, fmt.Errorf("%w within %s; the process was killed", ErrNoAnswer, answerWait)
		case <-ctx.Done():
			return worker.Answer{}, ctx.Err()
		}
	}
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
	_ = p.in.Close()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}
