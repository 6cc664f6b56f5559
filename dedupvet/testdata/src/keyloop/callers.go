package keyloop

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/tooldedup/dedup"
)

type service struct{ d *dedup.Deduper }

// once is repeated by the loops below.
func (s *service) once(ctx context.Context) error {
	_, err := dedup.Do(ctx, s.d, dedup.Call{Key: dedup.NewKey()}, effect) // want `Call.Key is minted by dedup.NewKey for every try of the loop at callers.go:\d+, so that`
	return err
}

func (s *service) retried(ctx context.Context) (err error) {
	for range 3 {
		if err = s.once(ctx); err == nil {
			return nil
		}
		time.Sleep(time.Second)
	}
	return err
}

func (s *service) retriedLiteral(ctx context.Context) (err error) {
	try := func() error {
		key := dedup.NewKey()
		_, err := dedup.Do(ctx, s.d, dedup.Call{Key: key}, effect) // want `Call.Key is minted by dedup.NewKey for every try of the loop`
		return err
	}
	for range 3 {
		if err = try(); err == nil {
			return nil
		}
	}
	return err
}

func retry(f func() error) (err error) {
	for range 3 {
		if err = f(); err == nil {
			return nil
		}
	}
	return err
}

func (s *service) retriedByFunction(ctx context.Context) error {
	return retry(func() error {
		_, err := dedup.Do(ctx, s.d, dedup.Call{Key: dedup.NewKey()}, effect) // want `Call.Key is minted by dedup.NewKey for every try of the loop`
		return err
	})
}

func send(client *http.Client, req *http.Request) (*http.Response, error) {
	req.Header.Set("Idempotency-Key", uuid.NewString()) // want `Idempotency-Key is minted by uuid.NewString for every try of the loop`
	return client.Do(req)
}

func sentAgain(client *http.Client, req *http.Request) error {
	for range 3 {
		resp, err := send(client, req)
		if err == nil && resp.StatusCode < 500 {
			return nil
		}
	}
	return errors.New("gave up")
}

func newID() string {
	id := dedup.NewKey()
	return id
}

func newCheckedID() (string, error) {
	id := dedup.NewKey()
	return id, nil
}

func throughWrapper(ctx context.Context, d *dedup.Deduper) (err error) {
	for range 3 {
		_, err = dedup.Do(ctx, d, dedup.Call{Key: newID()}, effect) // want `Call.Key is minted by dedup.NewKey for every try, so that`
		if err == nil {
			return nil
		}
	}
	for {
		key, err := newCheckedID()
		if err != nil {
			return err
		}
		_, err = dedup.Do(ctx, d, dedup.Call{Key: key}, effect) // want `Call.Key is minted by dedup.NewKey for every try, so that`
		if err == nil {
			return nil
		}
	}
}

// A function that is passed by name.
func (s *service) retriedMethod() error { return retry(s.named) }

func (s *service) named() error {
	_, err := dedup.Do(context.Background(), s.d, dedup.Call{Key: dedup.NewKey()}, effect) // want `Call.Key is minted by dedup.NewKey for every try of the loop`
	return err
}
