package lab

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Terminate ends the server's side of a random connection now and then, with pauses
// of up to so long, until ctx ends, and counts. It leaves the connections alone that have [OwnName].
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

// TerminateOne ends one that is not idle, and reports false where there is none.
func TerminateOne(ctx context.Context, own *pgxpool.Pool) (ended bool, err error) {
	err = own.QueryRow(ctx, `SELECT COALESCE(bool_or(pg_terminate_backend(pid)), false) FROM (
		SELECT pid FROM pg_stat_activity
		 WHERE datname = current_database() AND application_name <> $1 AND state <> 'idle' AND backend_type = 'client backend'
		 ORDER BY random() LIMIT 1) AS victim`, OwnName).Scan(&ended)
	return ended, err
}
