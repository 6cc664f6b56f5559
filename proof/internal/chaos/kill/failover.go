package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// standbyName is the standby's name in synchronous_standby_names.
const standbyName = "standby"

// longestLag bounds the time between the cut to an asynchronous standby and the primary's death.
const longestLag = 30 * time.Millisecond

// unreplicated is the number of tries without an answer between the cut to a synchronous standby
// and the primary's death: two for each caller. The first leaves a COMMIT that waits for the
// standby. The second meets that COMMIT.
const unreplicated = 2 * clients * atOnce

// replication is a standby's sync_state in pg_stat_replication.
type replication string

const (
	synchronous  replication = "sync"
	asynchronous replication = "async"
)

// Failovers kills the primary under load and promotes its standby, Params.Calls times with a
// synchronous standby and as often with an asynchronous one. The standby is cut off from the
// primary before.
//
// With a synchronous standby every COMMIT then waits, and callers give up and call again. A cancel
// request would end the wait and show a commit that no standby has; an answer from such a commit is
// lost with the primary. The library must lose no answer. The control looks for its effect before
// it runs, and pgx cancels its COMMITs: it must lose some.
//
// With an asynchronous standby some answers are lost, and the campaign counts them. Even then
// effect and record are lost together.
func Failovers(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	db.Pool.Close() // its server dies
	f := &failover{
		name: db.Name, primary: l.Server, own: l.Server,
		rng: rand.New(rand.NewPCG(p.Seed, 5)), gaveUp: make(chan struct{}),
	}
	defer f.retire(context.WithoutCancel(ctx))
	run := func(mode replication, times, perKey int, withDedup bool) (lab.Arm, error) {
		f.mode = mode
		return arm(ctx, p, f, string(mode)+" failover", times, 1, perKey, withDedup)
	}
	a, err := run(synchronous, p.Calls, twins, true)
	s.Enter(a)
	if err != nil {
		return err
	}
	a, err = run(asynchronous, p.Calls, twins, true)
	// A lost effect runs again if it is called again. Its first answer then differs from the answer
	// that counts.
	s.Details["asynchronous_lost_acknowledgements"] = a.Lost
	s.Details["asynchronous_answers_of_lost_effects"] = a.Differing
	a.Lost, a.Differing = 0, 0
	s.Enter(a)
	if err != nil {
		return err
	}
	a, err = run(synchronous, max(p.Calls/controlShare, 1), 1, false) // a twin would run a lost effect again
	s.EnterControl(a)
	if err == nil && a.Lost == 0 {
		err = errors.New("the control lost no answer, so no answer came from a commit that the standby did not have")
	}
	return err
}

// failover is a database whose primary dies and whose standby takes over.
type failover struct {
	name             string
	mode             replication
	primary, standby *pgserver.Server
	own              *pgserver.Server // the lab stops it
	rng              *rand.Rand
	gaveUp           chan struct{} // gets a value for each try without an answer while die receives
}

// ready starts a standby and waits until it streams in the failover's mode.
func (f *failover) ready(ctx context.Context) (url string, err error) {
	if f.standby, err = f.primary.StartStandby(ctx, standbyName, nil); err != nil {
		return "", err
	}
	names := map[replication]string{synchronous: standbyName, asynchronous: ""}
	err = exec(ctx, f.primary, `ALTER SYSTEM SET synchronous_standby_names = '`+names[f.mode]+`'`, `SELECT pg_reload_conf()`)
	if err != nil {
		return "", err
	}
	err = lab.Insist(ctx, func(ctx context.Context, _ int) error { // dividing by zero until it streams
		return exec(ctx, f.primary, `SELECT 1 / count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '`+string(f.mode)+`'`)
	})
	return f.url(f.primary.URL, f.standby.URL), err
}

// url names the database on two servers. pgx connects to the one that takes writes.
func (f *failover) url(first, second string) string {
	u, _ := url.Parse(first) // pgserver has made it
	other, _ := url.Parse(second)
	u.Host += "," + other.Host
	u.Path = "/" + f.name
	q := u.Query()
	q.Set("target_session_attrs", "read-write")
	u.RawQuery = q.Encode()
	return u.String()
}

// places have connections for callers that call again: the server keeps a connection whose COMMIT
// waits.
func (f *failover) places(ctx context.Context, url string, withDedup bool) ([]place, func(), error) {
	call := f.impatient(lookFirst)
	if withDedup {
		call = f.impatient(lab.Do)
	}
	return dial(ctx, url, 4*atOnce, giveUpAfter, call)
}

// impatient gives a try up after the client's limit.
func (f *failover) impatient(call lab.Caller) lab.Caller {
	return func(ctx context.Context, c *lab.Client, key string) (int64, error) {
		limited, cancel := context.WithTimeout(ctx, c.Limit)
		defer cancel()
		run, err := call(limited, c, key)
		if err != nil {
			select {
			case f.gaveUp <- struct{}{}:
			default: // die does not receive
			}
		}
		return run, err
	}
}

// lookFirst is the control: a transaction that runs the effect unless it finds it, and is repeated
// after any error.
func lookFirst(ctx context.Context, c *lab.Client, key string) (run int64, err error) {
	err = c.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `SELECT run FROM public.effects WHERE key = $1`, key).Scan(&run)
		if errors.Is(err, pgx.ErrNoRows) {
			err = tx.QueryRow(ctx, lab.Effect, key).Scan(&run)
		}
		return err
	})
	return run, err
}

// die cuts the standby off under load, kills the primary and promotes the standby.
func (f *failover) die(ctx context.Context) error {
	if err := wait(ctx, f.rng, longestUp, 2*longestUp); err != nil {
		return err
	}
	if err := f.cutOff(ctx); err != nil {
		return fmt.Errorf("cutting the standby off: %w", err)
	}
	if err := f.serveAlone(ctx); err != nil {
		return err
	}
	if err := f.primary.Kill(); err != nil {
		return fmt.Errorf("killing the primary: %w", err)
	}
	if err := exec(ctx, f.standby, `SELECT pg_promote(true, 60)`); err != nil {
		return err
	}
	dead := f.primary
	f.primary, f.standby = f.standby, nil
	if err := wait(ctx, f.rng, shortestUp, longestUp); err != nil || dead == f.own {
		return err
	}
	return dead.Stop(ctx)
}

// cutOff has the standby leave the primary, and returns when the primary sends it nothing more.
func (f *failover) cutOff(ctx context.Context) error {
	err := exec(ctx, f.standby, `ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`)
	if err != nil {
		return err
	}
	return lab.Insist(ctx, func(ctx context.Context, _ int) error { // dividing by zero until it has left
		return exec(ctx, f.primary, `SELECT 1 / (count(*) = 0)::int FROM pg_stat_replication`)
	})
}

// serveAlone lets the primary go on without its standby.
func (f *failover) serveAlone(ctx context.Context) (err error) {
	if f.mode == asynchronous {
		return wait(ctx, f.rng, 0, longestLag)
	}
	for n := 0; n < unreplicated && err == nil; n++ {
		_, err = receive(ctx, f.gaveUp)
	}
	return err
}

// retire removes the servers that are left, except the lab's.
func (f *failover) retire(ctx context.Context) {
	for _, s := range []*pgserver.Server{f.standby, f.primary} {
		if s != nil && s != f.own {
			_ = s.Stop(ctx)
		}
	}
}

func exec(ctx context.Context, s *pgserver.Server, statements ...string) error {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
