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

// redisLock is the pattern with a lock and the results in Redis: GET the result, SET NX the lock,
// the transaction with the effect, SET the result, DEL the lock. It is not safe: a client that dies
// between COMMIT and SET repeats its effect, and so does a client that takes longer than the lock
// lasts.
func redisLock(ctx context.Context, s *Session) (caller, error) {
	client := redis.NewClient(&redis.Options{Addr: s.Redis, PoolSize: s.Clients + 2, MinIdleConns: s.Clients + 2})
	s.atEnd(client.Close)
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("connecting to Redis: %w", err)
	}
	return func(ctx context.Context, keys []string) error { return callLocked(ctx, client, s.Pool, keys[0]) }, nil
}

func callLocked(ctx context.Context, client *redis.Client, pool *pgxpool.Pool, key string) error {
	name := Scope + ":" + Tool + ":" + key
	var r row
	recorded, err := client.Get(ctx, name).Bytes()
	if err == nil {
		return json.Unmarshal(recorded, &r)
	}
	if !errors.Is(err, redis.Nil) {
		return err
	}
	// A careful client would put a token into the lock and compare it before the DEL. That is left
	// out, in Redis's favour.
	if err := client.SetArgs(ctx, name+":lock", "1", redis.SetArgs{Mode: "NX", TTL: lockTTL}).Err(); err != nil {
		if errors.Is(err, redis.Nil) {
			return errLocked
		}
		return err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		r, err = insert(ctx, tx, key)
		return err
	})
	if err != nil {
		return err
	}
	result, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := client.Set(ctx, name, result, resultTTL).Err(); err != nil {
		return err
	}
	return client.Del(ctx, name+":lock").Err()
}
