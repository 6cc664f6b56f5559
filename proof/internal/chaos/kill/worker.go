package kill

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/chaos/lab"
)

// hello is the first line that a worker reads.
type hello struct {
	URL   string `json:"url"`
	Dedup bool   `json:"dedup"`
}

// done is a line that a worker writes: the answer to a key, or that there is
// none. Each further line that it reads is a key.
type done struct {
	Key   string `json:"key"`
	Run   int64  `json:"run"`
	Error string `json:"error,omitempty"`
}

// workerConns is the size of a worker's pool, and atOnce how many calls it makes
// at once.
const (
	workerConns = 3
	atOnce      = 4
)

// Work makes the calls that in names until it ends. It is what a worker process
// does until it is killed.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return fmt.Errorf("reading the first line: %w", lines.Err())
	}
	var h hello
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil {
		return fmt.Errorf("reading the first line: %w", err)
	}
	make, closePool, err := newCaller(ctx, h.URL, h.Dedup, workerConns)
	if err != nil {
		return err
	}
	defer closePool()
	var mu sync.Mutex
	answers := json.NewEncoder(out)
	var calls sync.WaitGroup
	for lines.Scan() {
		key := lines.Text()
		calls.Go(func() {
			answer := done{Key: key}
			var err error
			if answer.Run, err = make(ctx, key); err != nil {
				answer.Error = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			_ = answers.Encode(answer) // nobody listens any more: the end of in is near
		})
	}
	calls.Wait()
	return lines.Err()
}

// caller makes a call and returns the run of its effect.
type caller func(ctx context.Context, key string) (int64, error)

// newCaller returns a caller with a pool of its own.
func newCaller(ctx context.Context, url string, withDedup bool, conns int32) (caller, func(), error) {
	pool, err := lab.OpenPool(ctx, url, conns, pgx.QueryExecModeCacheStatement)
	if err != nil {
		return nil, nil, err
	}
	if !withDedup {
		return func(ctx context.Context, key string) (int64, error) {
			return lab.RunNaively(ctx, pool, key)
		}, pool.Close, nil
	}
	d, err := dedup.New(pool, &dedup.Options{Retry: dedup.RetryPolicy{BaseDelay: time.Millisecond, MaxDelay: 100 * time.Millisecond}})
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return func(ctx context.Context, key string) (int64, error) {
		r, err := dedup.Do(ctx, d, dedup.Call{Scope: "chaos", Tool: "effect", Key: key, Args: key}, lab.Run(key))
		return r.Value, err
	}, pool.Close, nil
}
