package deduptest

import (
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Effect describes a tool whose effect is outside the database, for [VerifyEffect].
type Effect[In, Out any] struct {
	// Tool is the tool as in production, with its client and its declared times; the test does not
	// wait for them. Only the address of the provider's API differs: it is the address of a fake
	// that asks Provider. Ref is required, and returns the id that Act returned.
	Tool external.Tool[In, Out]
	// Provider declares the guarantees of the real provider, and performs the tool's effects.
	// Nothing else may use it during the test.
	Provider *Provider
	// In returns the nth input: equal for equal n, and different for different n. Some calls have
	// equal inputs, so the fake must derive the argument about of Act and Find from the attempt's
	// Key.
	In func(n int) In

	// Options are the options of the tool's Deduper in production. Default: nil.
	Options *dedup.Options
	// Lease is the Lease of external.Options in production. Default: 30 s.
	Lease time.Duration
}

// untypedEffect is an Effect without its types.
type untypedEffect struct {
	name                      string
	provider                  *Provider
	options                   *dedup.Options
	lease                     time.Duration
	keyKept, settles, timeout time.Duration
	finds                     bool
	add                       func(*external.Tools) (callFunc, error)
}

// callFunc makes a call with the nth input. text is the answer as canonical JSON.
type callFunc func(ctx context.Context, call dedup.Call, n int) (text, ref string, err error)

func (e Effect[In, Out]) erase() (*untypedEffect, error) {
	switch {
	case e.Provider == nil:
		return nil, errors.New("Effect.Provider is nil; it says what the provider offers, and keeps the book")
	case e.In == nil:
		return nil, errors.New("Effect.In is nil; it must return the nth input")
	case e.Tool.Ref == nil:
		return nil, errors.New("Effect.Tool.Ref is nil; answers are compared with the provider's book by it")
	}
	o := &untypedEffect{
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
	o.add = func(x *external.Tools) (callFunc, error) {
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

// keyUsable returns how long after the first attempt another one may rely on the key.
func (o *untypedEffect) keyUsable() time.Duration {
	if o.keyKept == external.Forever {
		return external.Forever
	}
	return o.keyKept - o.settles - max(2*o.lease, o.timeout+o.lease)
}
