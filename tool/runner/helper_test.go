package runner_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/tool/runner"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// script is a try that returns each of the errors in turn, and then succeeds.
type script struct {
	errs []error
	keys []string // the keys in the contexts of the tries
	at   []time.Time
}

func failing(errs ...error) *script { return &script{errs: errs} }

func (s *script) try(ctx context.Context) (string, error) {
	key, _ := runner.KeyFrom(ctx)
	s.keys, s.at = append(s.keys, key), append(s.at, time.Now())
	if n := len(s.keys); n <= len(s.errs) {
		return "answer", s.errs[n-1]
	}
	return "answer", nil
}

// pauses returns the pauses between the tries.
func (s *script) pauses() (all []time.Duration) {
	for i := range s.at[1:] {
		all = append(all, s.at[i+1].Sub(s.at[i]))
	}
	return all
}

// do makes a call in fake time, which advances while all goroutines wait.
func do(t *testing.T, call runner.Call, s *script) (err error) {
	synctest.Test(t, func(t *testing.T) { _, err = runner.Do(t.Context(), call, s.try) })
	return err
}

var errBusy = &runner.StatusError{Code: 503}
