package kill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// standbyName is what synchronous_standby_names calls the standby.
const standbyName = "standby"

// followPause is between two looks whether the standby follows.
const followPause = 5 * time.Millisecond

// Failovers kills the primary under load and promotes its standby, Params.Calls
// times with a synchronous standby and as often with an asynchronous one. With
// the first nothing that was acknowledged may be lost. With the second some
// acknowledgements are, which is counted and told; the state must stay single all
// the same.
func Failovers(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	f := &failover{db: db, primary: l.Server, own: l.Server, rng: rand.New(rand.NewPCG(p.Seed, 5)), p: p}
	defer f.close(ctx)

	a, err := f.run(ctx, p.Calls, synchronous, true)
	s.Enter(a)
	if err != nil {
		return err
	}
	a, err = f.run(ctx, p.Calls, asynchronous, true)
	// An acknowledged effect that was lost runs again when it is called again, and
	// so may have two answers of which the second is true.
	s.Details["asynchronous_lost_acknowledgements"] = a.Lost
	s.Details["asynchronous_answers_of_lost_effects"] = a.Differing
	a.Lost, a.Differing = 0, 0
	s.Enter(a)
	if err != nil {
		return err
	}
	a, err = f.run(ctx, max(p.Calls/controlShare, 1), synchronous, false)
	s.EnterControl(a)
	return err
}

type replication bool

const (
	synchronous  replication = true
	asynchronous replication = false
)

func (r replication) String() string {
	if r {
		return "synchronous"
	}
	return "asynchronous"
}

// failover is a database whose primary changes.
type failover struct {
	db      *lab.Database
	primary *pgserver.Server
	own     *pgserver.Server // the lab's, which the lab stops
	rng     *rand.Rand
	p       lab.Params
	loads   int // that were begun; keys are never used by two
}

func (f *failover) close(ctx context.Context) {
	f.db.Pool.Close()
	if f.primary != f.own {
		_ = f.primary.Stop(context.WithoutCancel(ctx))
	}
}

// run makes so many failovers.
func (f *failover) run(ctx context.Context, times int, mode replication, withDedup bool) (a lab.Arm, err error) {
	ledger := lab.NewLedger()
	for n := range times {
		calls, err := f.once(ctx, mode, withDedup, ledger)
		a.Calls += calls
		if err != nil {
			return a, fmt.Errorf("%s failover %d: %w", mode, n+1, err)
		}
		a.Fault(mode.String()+" failover", 1)
		pool, err := pgxpool.New(ctx, f.url(f.primary))
		if err != nil {
			return a, err
		}
		a.Tally, err = ledger.Settle(ctx, pool)
		pool.Close()
		if err != nil {
			return a, err
		}
		f.p.Sayf("%d of %d %s failovers, %d calls: %v", n+1, times, mode, a.Calls, a.Tally)
	}
	return a, nil
}

// url is that of the database on one or more servers, of which pgx takes the one
// that writes.
func (f *failover) url(servers ...*pgserver.Server) string {
	hosts := ""
	var u *url.URL
	for _, s := range servers {
		u, _ = url.Parse(s.URL) // pgserver has made it
		if hosts != "" {
			hosts += ","
		}
		hosts += u.Host
	}
	u.Host, u.Path = hosts, "/"+f.db.Name
	q := u.Query()
	q.Set("target_session_attrs", "read-write")
	u.RawQuery = q.Encode()
	return u.String()
}

// once makes a standby, lets the load begin, kills the primary and promotes the
// standby under it.
func (f *failover) once(ctx context.Context, mode replication, withDedup bool, ledger *lab.Ledger) (calls int, err error) {
	standby, err := f.primary.StartStandby(ctx, standbyName, nil)
	if err != nil {
		return 0, err
	}
	if err := f.follow(ctx, mode); err != nil {
		return 0, errors.Join(err, standby.Stop(context.WithoutCancel(ctx)))
	}
	places, closePools, err := open(ctx, f.url(f.primary, standby), withDedup)
	defer closePools()
	if err != nil {
		return 0, errors.Join(err, standby.Stop(context.WithoutCancel(ctx)))
	}
	f.loads++
	load := startLoad(ctx, places, ledger, f.loads)
	err = f.replace(ctx, standby, mode)
	if err == nil {
		err = wait(ctx, up(f.rng)) // on the new primary
	}
	if err != nil {
		load.abandon()
		return load.stop(), errors.Join(err, standby.Stop(context.WithoutCancel(ctx)))
	}
	calls = load.stop()
	if old := f.primary; old != f.own {
		if err := old.Stop(ctx); err != nil {
			return calls, fmt.Errorf("removing the old primary: %w", err)
		}
	}
	f.primary = standby
	return calls, nil
}

// replace kills the primary in the middle of the load and promotes the standby.
// An asynchronous one is held back for a moment before, as by a slow network:
// what is acknowledged meanwhile is lost.
func (f *failover) replace(ctx context.Context, standby *pgserver.Server, mode replication) error {
	if err := wait(ctx, longestUp+time.Duration(f.rng.Int64N(int64(longestUp)))); err != nil {
		return err
	}
	if mode == asynchronous {
		// The walreceiver ends and is started again after wal_retrieve_retry_interval.
		if err := f.exec(ctx, f.primary, `SELECT pg_terminate_backend(pid) FROM pg_stat_replication`); err != nil {
			return err
		}
		if err := wait(ctx, time.Duration(f.rng.Int64N(int64(30*time.Millisecond)))); err != nil {
			return err
		}
	}
	if err := f.primary.Kill(); err != nil {
		return fmt.Errorf("killing the primary: %w", err)
	}
	return f.exec(ctx, standby, `SELECT pg_promote(true, 60)`)
}

// follow makes the primary wait for its standby, or not, and returns once the
// standby follows.
func (f *failover) follow(ctx context.Context, mode replication) error {
	names := ""
	if mode == synchronous {
		names = standbyName
	}
	if err := f.exec(ctx, f.primary, `ALTER SYSTEM SET synchronous_standby_names = '`+names+`'`); err != nil {
		return err
	}
	if err := f.exec(ctx, f.primary, `SELECT pg_reload_conf()`); err != nil {
		return err
	}
	want := "async"
	if mode == synchronous {
		want = "sync"
	}
	for {
		conn, err := pgx.Connect(ctx, f.primary.URL)
		if err != nil {
			return err
		}
		var following bool
		err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = $1)`, want).Scan(&following)
		_ = conn.Close(ctx)
		if err != nil || following {
			return err
		}
		if err := wait(ctx, followPause); err != nil {
			return fmt.Errorf("waiting for the standby to follow: %w", err)
		}
	}
}

func (f *failover) exec(ctx context.Context, s *pgserver.Server, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}
