package keyloop

import (
	"context"
	"fmt"
	"net/http"

	"github.com/cenkalti/backoff/v5"
	"github.com/tooldedup/dedup"
)

func mintedBefore(ctx context.Context, d *dedup.Deduper) (err error) {
	key := dedup.NewKey()
	for range 3 {
		_, err = dedup.Do(ctx, d, dedup.Call{Key: key}, effect)
		if err == nil {
			break
		}
	}
	return err
}

// Each item is its own call.
func items(ctx context.Context, d *dedup.Deduper, ids []string) error {
	for _, id := range ids {
		_, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey(), Args: id}, effect)
		if err != nil {
			return err
		}
	}
	return nil
}

// The first free seat; each seat is its own call.
func firstOf(ctx context.Context, d *dedup.Deduper, seats []string) (err error) {
	for _, seat := range seats {
		_, err = dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey(), Args: seat}, effect)
		if err == nil {
			return nil
		}
	}
	for i := range len(seats) {
		_, err = dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey(), Args: seats[i]}, effect)
		if err == nil {
			return nil
		}
	}
	return err
}

// A load: a call that fails ends it, or is counted.
func load(ctx context.Context, d *dedup.Deduper, n int) error {
	for range n {
		if _, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey()}, effect); err != nil {
			return err
		}
	}
	failed := 0
	for i := 0; i < n; i++ {
		_, err := dedup.Do(ctx, d, dedup.Call{Key: fmt.Sprint(i)}, effect)
		if err != nil {
			failed++
			continue
		}
	}
	return nil
}

// A worker takes one job after another.
func worker(ctx context.Context, d *dedup.Deduper, jobs chan string) {
	for job := range jobs {
		_, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey(), Args: job}, effect)
		if err != nil {
			jobs <- job
		}
	}
	for {
		job := <-jobs
		_, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey(), Args: job}, effect)
		if err != nil {
			continue
		}
	}
}

// Minted on the first turn and kept on the later ones.
func keptKey(ctx context.Context, d *dedup.Deduper, key string) error {
	for {
		if key == "" {
			key = dedup.NewKey()
		}
		_, err := dedup.Do(ctx, d, dedup.Call{Key: key}, effect)
		if err == nil {
			return nil
		}
	}
}

// The outer loop mints a key for each job, the inner one repeats it.
func jobByJob(ctx context.Context, d *dedup.Deduper, n int) error {
	for range n {
		key := dedup.NewKey()
		var err error
		for range 3 {
			if _, err = dedup.Do(ctx, d, dedup.Call{Key: key}, effect); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func requestedWell(client *http.Client, req *http.Request) error {
	req.Header.Set("Idempotency-Key", dedup.NewKey())
	for {
		req.Header.Set("X-Request-Id", dedup.NewKey())
		if _, err := client.Do(req); err == nil {
			return nil
		}
	}
}

func byAPackageWell(ctx context.Context, d *dedup.Deduper) (dedup.Result[int], error) {
	key := dedup.NewKey()
	return backoff.Retry(ctx, func() (dedup.Result[int], error) {
		return dedup.Do(ctx, d, dedup.Call{Key: key}, effect)
	})
}

// The call is made once; the loop repeats something else.
func repeatsAnother(ctx context.Context, d *dedup.Deduper, ping func() error) error {
	for {
		call := dedup.Call{Key: dedup.NewKey()}
		if err := ping(); err != nil {
			continue
		}
		_, err := dedup.Do(ctx, d, call, effect)
		return err
	}
}

func throughFunctionWell(ctx context.Context, d *dedup.Deduper, ids []string) error {
	for range ids {
		if err := book(ctx, d, dedup.NewKey()); err != nil {
			return err
		}
	}
	key := dedup.NewKey()
	for {
		if err := book(ctx, d, key); err == nil {
			return nil
		}
	}
}

// Another error decides about the next turn. The call may fail or not; the loop goes on while there
// is work.
func anotherError(ctx context.Context, d *dedup.Deduper, next func() error) {
	for {
		_, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey()}, effect)
		if err != nil {
			fmt.Println(err)
		}
		err = next()
		if err == nil {
			break
		}
	}
}
