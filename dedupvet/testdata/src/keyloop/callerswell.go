package keyloop

import (
	"context"

	"github.com/tooldedup/dedup"
)

// one is called in loops that do not repeat it until it succeeds.
func (s *service) one(ctx context.Context) error {
	_, err := dedup.Do(ctx, s.d, dedup.Call{Key: dedup.NewKey()}, effect)
	return err
}

func (s *service) loads(ctx context.Context, ids []string) error {
	for range 100 {
		if err := s.one(ctx); err != nil {
			return err
		}
	}
	failed := 0
	for range 100 {
		if err := s.one(ctx); err != nil {
			failed++
		}
	}
	for _, id := range ids {
		if err := s.one(context.WithValue(ctx, s, id)); err == nil {
			return nil
		}
	}
	return s.one(ctx)
}

// The key comes from before the loop, or is minted if there is none.
func (s *service) withKey(ctx context.Context, key string) error {
	if key == "" {
		key = dedup.NewKey()
	}
	_, err := dedup.Do(ctx, s.d, dedup.Call{Key: key}, effect)
	return err
}

func (s *service) withPlan(ctx context.Context, plan dedup.Call) error {
	key := plan.Key
	if key == "" {
		key = dedup.NewKey()
	}
	_, err := dedup.Do(ctx, s.d, dedup.Call{Key: key}, effect)
	return err
}

func (s *service) retriedWell(ctx context.Context, plan dedup.Call) (err error) {
	key := dedup.NewKey()
	try := func() error {
		_, err := dedup.Do(ctx, s.d, dedup.Call{Key: key}, effect)
		return err
	}
	for range 3 {
		if err = try(); err == nil {
			break
		}
	}
	for range 3 {
		if err = s.withKey(ctx, key); err == nil {
			break
		}
	}
	for range 3 {
		if err = s.withPlan(ctx, plan); err == nil {
			break
		}
	}
	return retry(func() error { return s.withKey(ctx, key) })
}

// The first free seat; each seat is its own call.
func (s *service) seat(ctx context.Context, n int) error {
	_, err := dedup.Do(ctx, s.d, dedup.Call{Key: dedup.NewKey(), Args: n}, effect)
	return err
}

func (s *service) firstSeat(ctx context.Context) (err error) {
	for n := range 10 {
		if err = s.seat(ctx, n); err == nil {
			break
		}
	}
	return err
}

// The loop repeats something else.
func (s *service) besidesAnother(ctx context.Context, next func() error) {
	for {
		if err := s.one(ctx); err != nil {
			return
		}
		if err := next(); err == nil {
			return
		}
	}
}

// A function that saves its result is more than a wrapper.
func savedID(save func(string) error) (string, error) {
	id := dedup.NewKey()
	return id, save(id)
}

func throughSaved(ctx context.Context, d *dedup.Deduper, save func(string) error) error {
	for {
		key, err := savedID(save)
		if err != nil {
			return err
		}
		_, err = dedup.Do(ctx, d, dedup.Call{Key: key}, effect)
		if err == nil {
			return nil
		}
	}
}
