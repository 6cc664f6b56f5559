package keyloop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

func effect(ctx context.Context, tx pgx.Tx) (int, error) { return 1, nil }

func untilItSucceeds(ctx context.Context, d *dedup.Deduper) (err error) {
	for attempt := 0; attempt < 3; attempt++ {
		_, err = dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey()}, effect) // want `Call.Key is minted by dedup.NewKey for every try`
		if err == nil {
			break
		}
	}
	return err
}

func forEver(ctx context.Context, d *dedup.Deduper) (int, error) {
	for {
		key := dedup.NewKey()
		result, err := dedup.Do(ctx, d, dedup.Call{Key: key}, effect) // want `Call.Key is minted by dedup.NewKey for every try`
		if err != nil {
			if dedup.IsRetryable(err) {
				continue
			}
			return 0, err
		}
		return result.Value, nil
	}
}

func whileItFails(ctx context.Context, d *dedup.Deduper) error {
	err := errors.New("not tried")
	for n := 0; err != nil && n < 3; n++ {
		call := dedup.Call{Scope: "acme"}
		call.Key = "k-" + dedup.NewKey() // want `Call.Key is minted by dedup.NewKey for every try`
		_, err = dedup.DoStatement[int](ctx, d, call, dedup.SQL("INSERT"))
	}
	return err
}

// A literal shares the error, so it is stored and loaded again.
func untilItSucceedsForALiteral(ctx context.Context, d *dedup.Deduper) (err error) {
	defer func() { fmt.Println(err) }()
	for {
		_, err = dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey()}, effect) // want `Call.Key is minted by dedup.NewKey for every try`
		if err == nil {
			return nil
		}
	}
}

func overCounts(ctx context.Context, d *dedup.Deduper) error {
	for range 3 {
		if _, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey()}, effect); err == nil { // want `Call.Key is minted`
			return nil
		}
	}
	return errors.New("gave up")
}

func overPauses(ctx context.Context, d *dedup.Deduper) error {
	for _, pause := range []time.Duration{0, time.Second} {
		time.Sleep(pause)
		_, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey()}, effect) // want `Call.Key is minted`
		switch {
		case err == nil:
			return nil
		case !dedup.IsRetryable(err):
			return err
		}
	}
	return errors.New("gave up")
}

func statement(ctx context.Context, d *dedup.Deduper) error {
	for {
		calls := []dedup.StatementCall{{Call: dedup.Call{Key: dedup.NewKey()}}} // want `Call.Key is minted`
		_, err := dedup.DoStatement[int](ctx, d, calls[0].Call, calls[0].Statement)
		if !dedup.IsRetryable(err) {
			return err
		}
	}
}

func counted(ctx context.Context, d *dedup.Deduper, id string) (err error) {
	for attempt := range 3 {
		_, err = dedup.Do(ctx, d, dedup.Call{Key: fmt.Sprintf("%s-%d", id, attempt)}, effect) // want `Call.Key has attempt in it, which counts the tries`
		if err == nil {
			break
		}
	}
	tries := 0
	for {
		tries++
		key, err := dedup.KeyFromIntent(id, fmt.Sprint(tries)) // want `a part of KeyFromIntent has tries in it`
		if err != nil {
			return err
		}
		if _, err = dedup.Do(ctx, d, dedup.Call{Key: key}, effect); err == nil {
			return nil
		}
	}
}

func invoked(ctx context.Context, tools *tool.Registry) error {
	for {
		_, err := tools.Invoke(ctx, tool.Invocation{Key: dedup.NewKey()}) // want `Invocation.Key is minted`
		if err == nil {
			return nil
		}
	}
}

func requested(client *http.Client, req *http.Request) error {
	for range 3 {
		req.Header.Set("Idempotency-Key", uuid.NewString()) // want `Idempotency-Key is minted by uuid.NewString for every try`
		resp, err := client.Do(req)
		if err == nil && resp.StatusCode < 500 {
			return nil
		}
	}
	return errors.New("gave up")
}

func byAPackage(ctx context.Context, d *dedup.Deduper) (dedup.Result[int], error) {
	return backoff.Retry(ctx, func() (dedup.Result[int], error) {
		return dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey()}, effect) // want `Call.Key is minted`
	})
}

// The items are the outer loop's; the inner one repeats one of them.
func nested(ctx context.Context, d *dedup.Deduper, ids []string) error {
	for _, id := range ids {
		for {
			_, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey(), Args: id}, effect) // want `Call.Key is minted`
			if err == nil {
				break
			}
		}
	}
	return nil
}

func throughFunction(ctx context.Context, d *dedup.Deduper) error {
	for {
		err := book(ctx, d, dedup.NewKey()) // want `Call.Key is minted`
		if err == nil {
			return nil
		}
	}
}

func book(ctx context.Context, d *dedup.Deduper, key string) error {
	_, err := dedup.Do(ctx, d, dedup.Call{Key: key}, effect)
	return err
}

// A success continues with the next item, and so leaves the loop of tries.
func labelled(ctx context.Context, d *dedup.Deduper, ids []string) {
items:
	for _, id := range ids {
		for tries := 1; ; tries++ {
			_, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey(), Args: id}, effect) // want `Call.Key is minted`
			switch {
			case err == nil:
				continue items
			case tries > 5:
				break items
			}
		}
	}
}

// A flag ends the loop.
func untilDone(ctx context.Context, d *dedup.Deduper) {
	for done := false; !done; {
		_, err := dedup.Do(ctx, d, dedup.Call{Key: dedup.NewKey()}, effect) // want `Call.Key is minted`
		done = err == nil
	}
}

// A key for the next turn.
func remintedAfterFailure(ctx context.Context, d *dedup.Deduper) {
	for key := dedup.NewKey(); ; key = dedup.NewKey() {
		if _, err := dedup.Do(ctx, d, dedup.Call{Key: key}, effect); err == nil { // want `Call.Key is minted`
			return
		}
	}
}
