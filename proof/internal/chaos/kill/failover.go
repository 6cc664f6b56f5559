package kill

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// standbyName is what synchronous_standby_names calls the standby.
const standbyName = "standby"

// longestLag is how long an asynchronous standby is cut off before the primary dies.
const longestLag = 30 * time.Millisecond

// replication is what pg_stat_replication calls it.
type replication string

const (
	synchronous  replication = "sync"
	asynchronous replication = "async"
)

// Failovers kills the primary under load and promotes its standby, Params.Calls times with a
// synchronous standby and as often with an asynchronous one. With the first nothing that was
// acknowledged may be lost. With the second some acknowledgements are, which is counted and told; the
// state must stay single all the same.
func Failovers(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	db.Pool.Close() // its server dies
	f := &failover{name: db.Name, primary: l.Server, own: l.Server, rng: rand.New(rand.NewPCG(p.Seed, 5))}
	defer f.retire(context.WithoutCancel(ctx))
	run := func(mode replication, times int, withDedup bool) (lab.Arm, error) {
		f.mode = mode
		return arm(ctx, p, f, string(mode)+" failover", times, 1, twins, withDedup)
	}
	a, err := run(synchronous, p.Calls, true)
	s.Enter(a)
	if err != nil {
		return err
	}
	a, err = run(asynchronous, p.Calls, true)
	// An acknowledged effect that was lost runs again when it is called again, and so may have two
	// answers of which the second is true.
	s.Details["asynchronous_lost_acknowledgements"] = a.Lost
	s.Details["asynchronous_answers_of_lost_effects"] = a.Differing
	a.Lost, a.Differing = 0, 0
	s.Enter(a)
	if err != nil {
		return err
	}
	a, err = run(synchronous, max(p.Calls/controlShare, 1), false)
	s.EnterControl(a)
	return err
}

// failover is a database whose primary dies, and is replaced by its standby.
type failover struct {
	name             string
	mode             replication
	primary, standby *pgserver.Server
	own              *pgserver.Server // the lab's, which the lab stops
	rng              *rand.Rand
}

// ready makes a standby, and has the primary wait for it or not.
func (f *failover) ready(ctx context.Context) (url string, err error) {
	if f.standby, err = f.primary.StartStandby(ctx, standbyName, nil); err != nil {
		return "", err
	}
	names := map[replication]string{synchronous: standbyName, asynchronous: ""}
	err = exec(ctx, f.primary, `ALTER SYSTEM SET synchronous_standby_names = '`+names[f.mode]+`'`, `SELECT pg_reload_conf()`)
	if err != nil {
		return "", err
	}
	err = lab.Insist(ctx, func(ctx context.Context, _ int) error { // it raises while none follows
		return exec(ctx, f.primary, `SELECT 1 / count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = '`+string(f.mode)+`'`)
	})
	return f.url(f.primary.URL, f.standby.URL), err
}

// url is that of the database on two servers, of which pgx takes the one that writes.
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

func (f *failover) places(ctx context.Context, url string, withDedup bool) ([]place, func(), error) {
	return dial(ctx, url, atOnce, 0, caller(withDedup))
}

// die kills the primary in the middle of the load and promotes the standby. An asynchronous one is
// held back for a moment before, as by a slow network: what is acknowledged meanwhile is lost.
func (f *failover) die(ctx context.Context) error {
	if err := wait(ctx, f.rng, longestUp, 2*longestUp); err != nil {
		return err
	}
	if f.mode == asynchronous {
		// The walreceiver ends and is started again after wal_retrieve_retry_interval.
		if err := exec(ctx, f.primary, `SELECT pg_terminate_backend(pid) FROM pg_stat_replication`); err != nil {
			return err
		}
		if err := wait(ctx, f.rng, 0, longestLag); err != nil {
			return err
		}
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

// retire removes the servers that are left, but for the lab's.
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
