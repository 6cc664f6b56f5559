package deduptest

import (
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Effect is what [VerifyEffect] tries: a tool whose effect is outside of the database.
type Effect[In, Out any] struct {
	// Tool is the tool as it is in production, with its client, and with the times that it
	// declares: nothing waits for them. What is different is the address of the provider's
	// API: it is that of a fake that asks Provider. Ref is required, and returns the id that
	// Act has given.
	Tool external.Tool[In, Out]
	// Provider says what the real provider offers, and carries the tool's effects out. It
	// serves nobody else meanwhile.
	Provider *Provider
	// In returns an input: the same for the same n, and another for another one. Two calls may have
	// equal inputs, so that what the fake gives Act and Find as "about" follows from the attempt's Key.
	In func(n int) In

	// Options are those that the tool's Deduper has in production. Default nil.
	Options *dedup.Options
	// Lease is that of external.Options in production. Default 30 s.
	Lease time.Duration
}

// outside is an Effect without its types.
type outside struct {
	name                      string
	provider                  *Provider
	options                   *dedup.Options
	lease                     time.Duration
	keyKept, settles, timeout time.Duration
	finds                     bool
	add                       func(*external.Tools) (doing, error)
}

// doing makes a call with the nth input. The text is that of the answer.
type doing func(ctx context.Context, call dedup.Call, n int) (text, ref string, err error)

func (e Effect[In, Out]) erase() (*outside, error) {
	switch {
	case e.Provider == nil:
		return nil, errors.New("Effect.Provider is nil; it says what the provider offers, and keeps the book")
	case e.In == nil:
		return nil, errors.New("Effect.In is nil; it must return the nth input")
	case e.Tool.Ref == nil:
		return nil, errors.New("Effect.Tool.Ref is nil; answers are compared with the provider's book by it")
	}
	o := &outside{
		name: e.Tool.Name, provider: e.Provider, options: e.Options, lease: e.Lease,
		keyKept: e.Tool.KeyKept, settles: e.Tool.Settles, timeout: e.Tool.Timeout,
		finds: e.Tool.Find != nil,
	}
	if o.lease == 0 {
		o.lease = defaultLease
	}
	if o.timeout == 0 {
		o.timeout = defaultTimeout
	}
	o.add = func(x *external.Tools) (doing, error) {
		handle, err := external.Add(x, e.Tool)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, call dedup.Call, n int) (text, ref string, err error) {
			result, err := handle.Do(ctx, call, e.In(n))
			if err != nil {
				return "", "", err
			}
			text, err = canonical(result.Value)
			return text, e.Tool.Ref(result.Value), err
		}, nil
	}
	return o, nil
}

// The defaults of package external.
const defaultLease, defaultTimeout = 30 * time.Second, 20 * time.Second

// holds is how long after the first attempt another one may be made because of the key.
func (o *outside) holds() time.Duration {
	if o.keyKept == external.Forever {
		return external.Forever
	}
	return o.keyKept - o.settles - max(2*o.lease, o.timeout+o.lease)
}
