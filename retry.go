package dedup

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// This file says which errors are retried, how often and after which pause. makeAttempts in
// attempts.go is the loop.

// mayRetry reports whether a fresh attempt may avoid an error of the library's own statements,
// before anything was written. The error is transient, or the connection was lost without an error
// from the server. For errors of effects see mayRetryEffect.
func mayRetry(ctx context.Context, err error) bool {
	if ctx.Err() != nil || errors.Is(err, ErrInFlight) {
		return false
	}
	return wire.IsTransient(err) || wire.IsConnLost(err)
}

// isOutage reports whether an error that may be retried comes from the server itself and not from
// other transactions.
func isOutage(err error) bool {
	switch wire.SQLState(err) {
	case wire.CodeSerialization, wire.CodeDeadlock, wire.CodeLockNotAvailable:
		return false
	}
	return true
}

// mayBeStale reports whether a changed type may have caused a statement's error. It is false for a
// wrong number of rows, a violated constraint, and an error that a function raised.
func mayBeStale(err error) bool {
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, pgx.ErrTooManyRows) || wire.IsTransient(err) {
		return false
	}
	switch sqlClass(err) {
	case "23", "P0":
		return false
	}
	return true
}

// mayRetryEffect reports whether a fresh transaction may avoid err, which comes from an effect, a
// statement or the function of a BeginFunc. A lost connection counts only if connLost is true: the
// transaction lost its own connection. Otherwise another service closed a connection.
func mayRetryEffect(err error, connLost bool) bool {
	return wire.IsTransient(err) || errors.Is(unmarked(err), ErrRestartTx) || connLost && wire.IsConnLost(err)
}

// sqlClass returns the class of an error's SQLSTATE: its first two characters, or "".
func sqlClass(err error) string {
	state := wire.SQLState(err)
	return state[:min(2, len(state))]
}

// pause returns the random pause after the nth fault, evenly between zero and longestPause. Callers
// that failed together then retry at different times.
func (p RetryPolicy) pause(n int) time.Duration { return rand.N(p.longestPause(n) + 1) }

// longestPause returns the upper bound of the pause after the nth fault.
func (p RetryPolicy) longestPause(n int) time.Duration {
	d := p.BaseDelay
	for range n - 1 {
		if d *= 2; d >= p.MaxDelay {
			return p.MaxDelay
		}
	}
	return d
}

// jitter returns a random duration between d/2 and d, so that waits and sweeps do not run in step.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits for d. It returns the context's error if the context ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}
