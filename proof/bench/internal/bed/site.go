package bed

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/scratchdb"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// A Site is a way's database, with calls that can be replayed.
type Site struct {
	Way   way.Way
	Seeds []string // keys of earlier calls
	Pool  *pgxpool.Pool

	database *scratchdb.Database
	direct   Line
	first    atomic.Int64 // calls with new keys
}

// A Line has the addresses of the servers, or of proxies before them.
type Line struct{ Postgres, Redis string }

// Line has the servers' own addresses.
func (b *Bed) Line() (l Line) {
	if u, err := url.Parse(b.URL); err == nil {
		l.Postgres = u.Host
	}
	if b.Redis != nil {
		l.Redis = b.Redis.Addr
	}
	return l
}

// Site makes the database of a way. The error is [ErrNoRedis] if the way needs a Redis and there
// is none.
func (b *Bed) Site(ctx context.Context, w way.Way) (_ *Site, err error) {
	if w.NeedsRedis && b.Redis == nil {
		return nil, b.noRedis
	}
	db, err := scratchdb.Create(ctx, b.URL, "bench_"+w.Name+"_")
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.New(ctx, db.URL)
	if err != nil {
		return nil, fmt.Errorf("connecting to database %s: %w", db.Name, err)
	}
	s := &Site{Way: w, Pool: pool, database: db, direct: b.Line()}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if _, err := s.Pool.Exec(ctx, way.Effects); err != nil {
		return nil, fmt.Errorf("creating the table of effects: %w", err)
	}
	if w.Prepare != nil {
		if err := w.Prepare(ctx, s.Pool); err != nil {
			return nil, fmt.Errorf("preparing %s: %w", w.Name, err)
		}
	}
	return s, nil
}

// Close closes the connections of Pool.
func (s *Site) Close() { s.Pool.Close() }

// Drop closes the connections and removes the database, which takes as long as a checkpoint.
func (s *Site) Drop(ctx context.Context) (err error) {
	s.Close()
	return s.database.Drop(context.WithoutCancel(ctx)) // the measurement may have been interrupted
}

// URL is the URL of the database.
func (s *Site) URL() string { return s.database.URL }

// Env is the way's environment for a number of clients, without a proxy.
func (s *Site) Env(clients int) way.Env { return s.EnvOver(s.direct, clients) }

// EnvOver is the way's environment over a line.
func (s *Site) EnvOver(line Line, clients int) way.Env {
	return way.Env{Postgres: Via(s.URL(), line.Postgres), Redis: line.Redis, Clients: clients}
}

// Via is the URL with another address.
func Via(databaseURL, addr string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return databaseURL
	}
	u.Host = addr
	return u.String()
}

// NewKeys returns the keys of one operation. They count as used.
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
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	return do(session)
}

// Seed makes at least so many calls, directly and in turn: many clients would make tables grow by
// more pages than they fill.
func (s *Site) Seed(ctx context.Context, calls int) error {
	return s.Session(ctx, s.Env(1), func(session *way.Session) error {
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

// Verify counts the effects: each used key has exactly one.
func (s *Site) Verify(ctx context.Context) error {
	var effects, keys int64
	if err := s.Pool.QueryRow(ctx, `SELECT count(*), count(DISTINCT ref) FROM effects`).Scan(&effects, &keys); err != nil {
		return fmt.Errorf("counting the effects of %s: %w", s.Way.Name, err)
	}
	if want := s.first.Load(); effects != want || keys != want {
		return fmt.Errorf("%s: %d calls with new keys left %d effects of %d keys: what was measured is not what it claims to be",
			s.Way.Name, want, effects, keys)
	}
	return nil
}
