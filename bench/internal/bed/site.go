package bed

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/way"
	"github.com/tooldedup/dedup/internal/scratchdb"
)

// A Site is a way's place on the bed, with calls made there that can be replayed.
type Site struct {
	Way   way.Way
	Seeds []string // keys of calls that were made
	// Pools lead to the way's databases.
	Pools []*pgxpool.Pool

	databases []*scratchdb.Database
	env       way.Env
	first     atomic.Int64 // calls with new keys
}

// A Line is how a way's servers are reached: directly, or through proxies.
// Empty addresses mean the servers' own.
type Line struct{ Postgres, Redis string }

// Site makes the databases of a way. The error is [ErrNoRedis] where there is
// none, and the way needs one.
func (b *Bed) Site(ctx context.Context, w way.Way) (_ *Site, err error) {
	s := &Site{Way: w}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if w.NeedsRedis {
		if b.Redis == nil {
			return nil, b.noRedis
		}
		s.env.Redis = b.Redis.Addr
	}
	if s.env.Postgres, err = s.database(ctx, b, "bench_"+w.Name); err != nil {
		return nil, err
	}
	if w.NeedsSecondDatabase {
		if s.env.SecondPostgres, err = s.database(ctx, b, "bench_"+w.Name+"_second"); err != nil {
			return nil, err
		}
	}
	if _, err := s.Pools[0].Exec(ctx, way.Effects); err != nil {
		return nil, fmt.Errorf("creating the table of effects: %w", err)
	}
	if w.Prepare != nil {
		if err := w.Prepare(ctx, s.Pools[0]); err != nil {
			return nil, fmt.Errorf("preparing %s: %w", w.Name, err)
		}
	}
	return s, nil
}

// database makes a new database and a pool that leads to it, and returns its URL.
func (s *Site) database(ctx context.Context, b *Bed, name string) (string, error) {
	db, err := scratchdb.Create(ctx, b.URL, name+"_")
	if err != nil {
		return "", err
	}
	s.databases = append(s.databases, db)
	pool, err := pgxpool.New(ctx, db.URL)
	if err != nil {
		return "", fmt.Errorf("connecting to database %s: %w", db.Name, err)
	}
	s.Pools = append(s.Pools, pool)
	return db.URL, nil
}

// Close closes the connections of Pools.
func (s *Site) Close() {
	for _, pool := range s.Pools {
		pool.Close()
	}
}

// Drop closes the connections and removes the databases, which takes as long as a checkpoint does.
func (s *Site) Drop(ctx context.Context) (err error) {
	s.Close()
	ctx = context.WithoutCancel(ctx) // what is measured may have been interrupted
	for _, db := range s.databases {
		err = errors.Join(err, db.Drop(ctx))
	}
	return err
}

// Env is the way's environment for so many clients over the line.
func (s *Site) Env(clients int, line Line) way.Env {
	env := s.env
	env.Clients = clients
	env.Postgres = Via(env.Postgres, line.Postgres)
	env.SecondPostgres = Via(env.SecondPostgres, line.Postgres)
	if env.Redis != "" && line.Redis != "" {
		env.Redis = line.Redis
	}
	return env
}

// Via is the URL with another address. Either may be empty.
func Via(databaseURL, addr string) string {
	u, err := url.Parse(databaseURL)
	if addr == "" || databaseURL == "" || err != nil {
		return databaseURL
	}
	u.Host = addr
	return u.String()
}

// NewKeys are those of one operation. They count as used.
func (s *Site) NewKeys() []string {
	keys := make([]string, s.Way.Batch)
	for i := range keys {
		keys[i] = dedup.NewKey()
	}
	s.first.Add(int64(len(keys)))
	return keys
}

// Session opens the way for one client and closes it after do.
func (s *Site) Session(ctx context.Context, env way.Env, do func(*way.Session) error) (err error) {
	session, err := s.Way.Open(ctx, env)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Way.Name, err)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return do(session)
}

// Seed makes at least so many calls, directly and one after another: many clients
// would make tables grow by more pages than they fill.
func (s *Site) Seed(ctx context.Context, calls int) error {
	return s.Session(ctx, s.Env(1, Line{}), func(session *way.Session) error {
		for made := 0; made < calls; made += s.Way.Batch {
			keys := s.NewKeys()
			if err := session.Call(ctx, keys); err != nil {
				return fmt.Errorf("seeding %s: %w", s.Way.Name, err)
			}
			s.Seeds = append(s.Seeds, keys...)
		}
		return nil
	})
}

// Verify counts the effects: each key that was used has exactly one.
func (s *Site) Verify(ctx context.Context) error {
	var effects, keys int64
	if err := s.Pools[0].QueryRow(ctx, `SELECT count(*), count(DISTINCT ref) FROM effects`).Scan(&effects, &keys); err != nil {
		return fmt.Errorf("counting the effects of %s: %w", s.Way.Name, err)
	}
	if want := s.first.Load(); effects != want || keys != want {
		return fmt.Errorf("%s: %d calls with new keys left %d effects of %d keys: what was measured is not what it claims to be",
			s.Way.Name, want, effects, keys)
	}
	return nil
}
