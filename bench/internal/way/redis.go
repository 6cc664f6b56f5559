package way

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

const (
	lockTTL   = 30 * time.Second
	resultTTL = 24 * time.Hour
)

// errLocked means that a twin is in flight.
var errLocked = errors.New("a twin holds the lock")

// Redis is the pattern with a lock and the results in Redis: GET the result, SET
// NX the lock, the transaction with the effect, SET the result, DEL the lock.
// It is not safe: who dies between COMMIT and that SET has its effect repeated, and
// so has who takes longer than the lock lasts.
func Redis() Way {
	return Way{
		Name: "redis", Title: "Redis lock and result", Batch: 1, Replays: true, OneKey: true, NeedsRedis: true,
		Open: onPool(func(ctx context.Context, env Env, pool *pgxpool.Pool) (caller, func() error, error) {
			client := redis.NewClient(&redis.Options{
				Addr: env.Redis, Dialer: env.DialRedis,
				PoolSize: env.Clients + 2, MinIdleConns: env.Clients + 2,
			})
			err := client.Ping(ctx).Err()
			if err != nil {
				err = fmt.Errorf("connecting to Redis: %w", err)
			}
			return redisSession{pool, client}.call, client.Close, err
		}),
	}
}

type redisSession struct {
	pool   *pgxpool.Pool
	client *redis.Client
}

func (s redisSession) call(ctx context.Context, keys []string) error {
	name := Scope + ":" + Tool + ":" + keys[0]
	var r row
	recorded, err := s.client.Get(ctx, name).Bytes()
	if err == nil {
		return json.Unmarshal(recorded, &r)
	}
	if !errors.Is(err, redis.Nil) {
		return err
	}
	// A careful client would put a token of its own into the lock and compare it
	// before it deletes. That is left out, in Redis's favour.
	if err := s.client.SetArgs(ctx, name+":lock", "1", redis.SetArgs{Mode: "NX", TTL: lockTTL}).Err(); err != nil {
		if errors.Is(err, redis.Nil) {
			return errLocked
		}
		return err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		r, err = insert(ctx, tx, keys[0])
		return err
	})
	if err != nil {
		return err
	}
	result, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := s.client.Set(ctx, name, result, resultTTL).Err(); err != nil {
		return err
	}
	return s.client.Del(ctx, name+":lock").Err()
}
