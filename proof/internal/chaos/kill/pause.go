package kill

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// A call is given up after so long at first: see [lab.Client.Try]. The books are settled after so many pauses.
const giveUpAfter, serverPauses = 250 * time.Millisecond, 20

// Pauses pauses the server Params.Calls times under load. Callers give up and call again while their transactions are
// open, which may commit when the server goes on. The control has no twins: it goes wrong by the pauses alone.
func Pauses(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	return s.Arms(func(withDedup bool) (a lab.Arm, err error) {
		times, perKey := p.Calls, twins
		if !withDedup {
			times, perKey = max(p.Calls/controlShare, 3), 1
		}
		db, err := l.Create(ctx)
		if err != nil {
			return a, err
		}
		defer func() { _ = db.Drop(ctx) }()
		v := &paused{url: db.URL, server: l.Server, rng: rand.New(rand.NewPCG(p.Seed, 6)), held: make(chan *held), gaveUp: make(chan struct{})}
		return arm(ctx, p, v, "SIGSTOP of the server", times, serverPauses, perKey, withDedup)
	})
}

// paused is a server that is paused.
type paused struct {
	url    string
	server *pgserver.Server
	rng    *rand.Rand
	held   chan *held
	gaveUp chan struct{} // has a value for each call that ends without an answer, while they are counted
}

// held is a call that waits in its effect until the server is paused or it is given up.
type held struct {
	paused chan struct{}
	met    bool // it was there when the server was paused
	ended  chan error
}

func (v *paused) ready(context.Context) (url string, err error) { return v.url, nil }

// places have connections for callers that call again: one that was given up is kept until the server goes on.
func (v *paused) places(ctx context.Context, url string, withDedup bool) ([]place, func(), error) {
	calls := []lab.Caller{v.caller(lab.Plain)}
	if withDedup {
		calls = []lab.Caller{v.caller(lab.Ways[0]), v.caller(lab.Ways[1]), v.caller(lab.Ways[2])} // Do, DoTx, DoStatement
	}
	return dial(ctx, url, 4*atOnce, giveUpAfter, calls...)
}

// caller gives a call up after the client's limit. It is held in its effect if that is wanted.
func (v *paused) caller(way lab.Way) lab.Caller {
	return func(ctx context.Context, c *lab.Client, key string) (int64, error) {
		limited, cancel := context.WithTimeout(ctx, c.Limit)
		defer cancel()
		h := &held{paused: make(chan struct{}), ended: make(chan error, 1)}
		job := lab.NewJob(key)
		job.Then = func(ctx context.Context, _ pgx.Tx) error { return v.hold(ctx, h) }
		answers, err := way.Make(limited, c, []lab.Job{job})
		h.ended <- err
		if err == nil {
			return answers[0].Run, nil
		}
		select {
		case v.gaveUp <- struct{}{}:
		default: // nobody counts
		}
		return 0, err
	}
}

// hold holds a call, if one is wanted, until the server is paused or the call is given up.
func (v *paused) hold(ctx context.Context, h *held) (err error) {
	select {
	case v.held <- h:
		_, err = receive(ctx, h.paused)
		h.met = err == nil
	default:
	}
	return err
}

// die pauses the server until a pause has met a call between its effect and its COMMIT.
func (v *paused) die(ctx context.Context) error {
	for {
		h, err := receive(ctx, v.held)
		if err == nil {
			err = v.pause(ctx, h)
		}
		if err != nil || h.met {
			return err
		}
	}
}

// pause pauses the server until a held call, and then as many of all calls as are drawn, have been given up.
func (v *paused) pause(ctx context.Context, h *held) (err error) {
	defer func() { err = errors.Join(err, v.server.Resume()) }()
	if err = v.server.Pause(); err != nil {
		return err
	}
	close(h.paused)
	answer, err := receive(ctx, h.ended)
	if err == nil && answer == nil {
		err = errors.New("a server that is paused has answered")
	}
	for n := v.rng.IntN(clients * atOnce); n > 0 && err == nil; n-- {
		_, err = receive(ctx, v.gaveUp)
	}
	return err
}

// receive waits for a value.
func receive[T any](ctx context.Context, from <-chan T) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	}
}
