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

// giveUpAfter is the limit of a call's first tries, see [lab.Client.Try]. The books are settled
// after serverPauses pauses.
const giveUpAfter, serverPauses = 250 * time.Millisecond, 20

// Pauses pauses the server Params.Calls times under load. Callers give up and call again while
// their transactions are open. These may commit when the server goes on. The control has no twins,
// so that only the pauses break it.
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

// paused is the server that is paused.
type paused struct {
	url    string
	server *pgserver.Server
	rng    *rand.Rand
	held   chan *held
	gaveUp chan struct{} // gets a value for each try without an answer while pause receives
}

// held is a call that waits in its effect until the pause, or until it is given up.
type held struct {
	paused chan struct{}
	met    bool // it waited when the server was paused
	ended  chan error
}

func (v *paused) ready(context.Context) (url string, err error) { return v.url, nil }

// places have connections for repeated calls: the paused server keeps the connection of an
// abandoned call.
func (v *paused) places(ctx context.Context, url string, withDedup bool) ([]place, func(), error) {
	calls := []lab.Caller{v.caller(lab.Plain)}
	if withDedup {
		calls = []lab.Caller{v.caller(lab.Ways[0]), v.caller(lab.Ways[1]), v.caller(lab.Ways[2])} // Do, DoTx, DoStatement
	}
	return dial(ctx, url, 4*atOnce, giveUpAfter, calls...)
}

// caller gives a try up after the client's limit. It may be held in its effect.
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
		default: // pause does not receive
		}
		return 0, err
	}
}

// hold holds a call, if die wants one, until the pause or until the call is given up.
func (v *paused) hold(ctx context.Context, h *held) (err error) {
	select {
	case v.held <- h:
		_, err = receive(ctx, h.paused)
		h.met = err == nil
	default:
	}
	return err
}

// die pauses the server until one pause meets a call between its effect and its COMMIT.
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

// pause pauses the server until a held call and a drawn number of other calls are given up.
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

// receive waits for a value or for the end of ctx.
func receive[T any](ctx context.Context, from <-chan T) (v T, err error) {
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, ctx.Err()
	}
}
