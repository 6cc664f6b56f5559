package lab

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Terminate now and then ends the server's side of a random connection until ctx ends, with pauses
// of up to pause. It returns the count. Connections with [OwnName] are left alone.
func Terminate(ctx context.Context, around *sync.WaitGroup, db *Database, pause time.Duration, seed uint64) *atomic.Int64 {
	var count atomic.Int64
	rng := rand.New(rand.NewPCG(seed, 4))
	around.Go(func() {
		for Pause(ctx, time.Duration(rng.Int64N(int64(pause)))) {
			if ended, err := TerminateOne(ctx, db.Pool); err == nil && ended {
				count.Add(1)
			}
		}
	})
	return &count
}

// TerminateOne ends a connection that is not idle. It returns false if there is none.
func TerminateOne(ctx context.Context, own *pgxpool.Pool) (ended bool, err error) {
	err = own.QueryRow(ctx, `SELECT COALESCE(bool_or(pg_terminate_backend(pid)), false) FROM (
		SELECT pid FROM pg_stat_activity
		 WHERE datname = current_database() AND application_name <> $1 AND state <> 'idle' AND backend_type = 'client backend'
		 ORDER BY random() LIMIT 1) AS victim`, OwnName).Scan(&ended)
	return ended, err
}
