package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// answerWait is how long a delivery may take. Only a defect takes longer; the
// process is killed then, so that a replay ends.
const answerWait = time.Minute

var errLate = errors.New("the time is up")

// deliver sends a delivery by the way of the fleet.
func (p *workerProcess) deliver(ctx context.Context, d worker.Delivery) (answer worker.Answer, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, answerWait, errLate)
	defer cancel()
	if p.way.Networked() {
		answer, err = p.deliverByNetwork(limited, d)
	} else {
		answer, err = p.deliverByLine(limited, d)
	}
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return worker.Answer{}, ctx.Err()
	case errors.Is(context.Cause(limited), errLate):
		p.Kill()
		return worker.Answer{}, fmt.Errorf("%w within %s; the process was killed", ErrNoAnswer, answerWait)
	}
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		p.Kill() // a process that does not listen is of no use
	}
	return answer, fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

func (p *workerProcess) deliverByLine(ctx context.Context, d worker.Delivery) (worker.Answer, error) {
	if p.metrics {
		if _, err := p.announced(ctx); err != nil {
			return worker.Answer{}, err
		}
	}
	if err := p.Send(d); err != nil {
		p.Kill() // a process that does not listen is of no use
		return worker.Answer{}, err
	}
	for {
		answer, err := p.next(ctx)
		switch {
		case err != nil:
			return worker.Answer{}, err
		case answer.ID != d.ID:
		case answer.Error != "":
			return answer, errors.New(answer.Error)
		default:
			return answer, nil
		}
	}
}

func (p *workerProcess) deliverByNetwork(ctx context.Context, d worker.Delivery) (worker.Answer, error) {
	client, err := p.dialed(ctx)
	if err != nil {
		return worker.Answer{}, err
	}
	return client.Deliver(ctx, d)
}

// dialed returns the client of the process. The first call waits for the address.
func (p *workerProcess) dialed(ctx context.Context) (worker.Client, error) {
	address, err := p.announced(ctx)
	if err != nil {
		return nil, err
	}
	p.dialing.Lock()
	defer p.dialing.Unlock()
	if p.client == nil {
		p.client, err = p.way.Dial(address, p.wire)
	}
	return p.client, err
}

// announced returns the address in the first line of the process. The first call waits for it.
func (p *workerProcess) announced(ctx context.Context) (string, error) {
	p.dialing.Lock()
	defer p.dialing.Unlock()
	if p.address == "" {
		first, err := p.next(ctx)
		if err != nil {
			return "", err
		}
		p.address = first.Address
	}
	return p.address, nil
}

// scrape returns the page of metrics.
func (p *workerProcess) scrape(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	address, err := p.announced(ctx)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// next returns the next line of the process.
func (p *workerProcess) next(ctx context.Context) (worker.Answer, error) {
	select {
	case answer := <-p.answers:
		return answer, nil
	case <-p.Done():
		return worker.Answer{}, errors.New("the process ended")
	case <-ctx.Done():
		return worker.Answer{}, ctx.Err()
	}
}

// hangUp ends the client.
func (p *workerProcess) hangUp() {
	p.dialing.Lock()
	defer p.dialing.Unlock()
	if p.client != nil {
		p.client.Close()
	}
}
