package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool/runner"
)

// store keeps the text that a plan was saved as.
type store struct {
	text []byte
	err  error
}

func (s *store) save(_ context.Context, text []byte) error {
	if s.err == nil {
		s.text = text
	}
	return s.err
}

func TestPlanHandsOutSavedKeysOnly(t *testing.T) {
	t.Parallel()
	var plan runner.Plan
	full := errors.New("disk full")
	file := store{err: full}
	require.ErrorIs(t, plan.Add(t.Context(), file.save, "pay"), full)
	_, err := plan.Key("pay")
	require.ErrorIs(t, err, dedup.ErrInvalid, "a save that failed adds nothing")

	file.err = nil
	require.NoError(t, plan.Add(t.Context(), file.save, "reserve", "pay", "reserve"))
	pay, err := plan.Key("pay")
	require.NoError(t, err)
	reserve, err := plan.Key("reserve")
	require.NoError(t, err)
	require.NotEqual(t, pay, reserve)

	file.err = full
	require.NoError(t, plan.Add(t.Context(), file.save, "pay"), "nothing is new, and nothing is saved")
	require.ErrorIs(t, plan.Add(t.Context(), file.save, "pay", "ship"), full)
	again, err := plan.Key("pay")
	require.NoError(t, err)
	require.Equal(t, pay, again, "a step keeps its key")

	loaded, err := runner.LoadPlan(file.text)
	require.NoError(t, err)
	again, err = loaded.Key("pay")
	require.NoError(t, err)
	require.Equal(t, pay, again)
	_, err = loaded.Key("ship")
	var unknown *dedup.InvalidError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "ship", unknown.Field)

	file.err = nil
	require.NoError(t, loaded.Add(t.Context(), file.save, "pay", "ship"))
	again, err = loaded.Key("pay")
	require.NoError(t, err)
	require.Equal(t, pay, again)
}

func TestPlanRefusesBadNames(t *testing.T) {
	t.Parallel()
	var plan runner.Plan
	for _, name := range []string{"", "a\xff"} {
		require.ErrorIs(t, plan.Add(t.Context(), notAsked, "pay", name), dedup.ErrInvalid)
	}
	_, err := plan.Key("pay")
	require.ErrorIs(t, err, dedup.ErrInvalid, "nothing is added")
}

func notAsked(context.Context, []byte) error { return errors.New("store is asked") }

func TestLoadPlanRefuses(t *testing.T) {
	t.Parallel()
	const secret = "k-secret"
	for text, reason := range map[string]string{
		``:                                      "not JSON",
		`{`:                                     "not JSON",
		`null`:                                  "version 0",
		`{}`:                                    "version 0",
		`[]`:                                    "not the JSON of a plan",
		`{"steps":{"a":"k-secret"}}`:            "version 0",
		`{"version":0,"steps":{}}`:              "version 0",
		`{"version":2,"steps":{}}`:              "version 2",
		`{"version":"1","steps":{}}`:            "not the JSON of a plan",
		`{"version":1}`:                         "lost its steps",
		`{"version":1,"steps":null}`:            "lost its steps",
		`{"version":1,"steps":[]}`:              "not the JSON of a plan",
		`{"version":1,"steps":{"a":""}}`:        `a has an empty name or key`,
		`{"version":1,"steps":{"a":null}}`:      `a has an empty name or key`,
		`{"version":1,"steps":{"a":1}}`:         "not the JSON of a plan",
		`{"version":1,"steps":{"":"k-secret"}}`: "empty name or key",
		`{"version":1,"steps":{"a":"k-secret","b":"k-secret"}}`:   `b has the same key as step "a"`,
		`{"version":1,"steps":{"a":"k-secret","a":"k-secret2"}}`:  "unique names",
		`{"version":1,"steps":{},"steps":{"a":"k-secret"}}`:       "unique names",
		`{"version":1,"steps":{},"turn":1}`:                       "not the JSON of a plan",
		`{"version":1,"steps":{"pay":"k1"},"Steps":{"pay":"k2"}}`: "not the JSON of a plan",
		`{"version":1,"steps":{}} {}`:                             "not JSON",
	} {
		plan, err := runner.LoadPlan([]byte(text))
		require.Nil(t, plan, text)
		require.ErrorIs(t, err, dedup.ErrInvalid, text)
		require.ErrorContains(t, err, reason, text)
		require.NotContains(t, err.Error(), secret)
	}
}

func TestPlanOfManyGoroutines(t *testing.T) {
	t.Parallel()
	var plan runner.Plan
	var last store
	var inside atomic.Int32
	save := func(ctx context.Context, text []byte) error {
		defer inside.Add(-1)
		if inside.Add(1) != 1 {
			return errors.New("two saves at once, of which the older one may be the last")
		}
		runtime.Gosched()
		return last.save(ctx, text)
	}
	var group sync.WaitGroup
	failed := make([]error, 8)
	for i := range failed {
		group.Go(func() {
			for j := range 20 {
				step := fmt.Sprintf("%d/%d", i, j)
				_, missing := plan.Key(step)
				added := plan.Add(t.Context(), save, "shared", step)
				_, err := plan.Key(step)
				if missing == nil {
					err = errors.New("a key before it was made")
				}
				failed[i] = errors.Join(failed[i], added, err)
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(failed...))
	loaded, err := runner.LoadPlan(last.text)
	require.NoError(t, err)
	for i := range failed {
		for j := range 20 {
			step := fmt.Sprintf("%d/%d", i, j)
			want, err := plan.Key(step)
			require.NoError(t, err)
			got, err := loaded.Key(step)
			require.NoError(t, err, "the last save has everything")
			require.Equal(t, want, got)
		}
	}
}

// A plan that was loaded is saved unchanged.
func FuzzLoadPlan(f *testing.F) {
	for _, seed := range []string{`{"version":1,"steps":{"a":"k"}}`, `{"version":1,"steps":{"a":"k","a":"l"}}`, `{"VERSION":1,"Steps":{"é":"\u0000"}}`, `{}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		plan, err := runner.LoadPlan(text)
		if err != nil {
			require.ErrorIs(t, err, dedup.ErrInvalid)
			return
		}
		var file store
		var loaded, saved struct{ Steps map[string]string }
		require.NoError(t, json.Unmarshal(text, &loaded))
		require.NoError(t, plan.Add(t.Context(), file.save, "one more"))
		if file.text == nil { // the file exists
			return
		}
		_, err = runner.LoadPlan(file.text)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(file.text, &saved))
		delete(saved.Steps, "one more")
		require.Equal(t, loaded.Steps, saved.Steps)
	})
}

// A plan that could not be loaded is not saved.
func TestPlanRefusesTooManySteps(t *testing.T) {
	t.Parallel()
	var plan runner.Plan
	steps := make([]string, 17)
	for i := range steps {
		steps[i] = strings.Repeat("s", 1<<20) + strconv.Itoa(i)
	}
	err := plan.Add(t.Context(), notAsked, steps...)
	require.ErrorIs(t, err, dedup.ErrInvalid)
	require.ErrorContains(t, err, "make several plans")
}
