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

	"github.com/tooldedup/dedup/tool/runner"
)

// store keeps what a plan was saved as.
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
	var file store
	require.Empty(t, plan.Unsaved())
	require.NoError(t, plan.Add("reserve", "pay", "reserve"))
	require.Equal(t, []string{"pay", "reserve"}, plan.Unsaved())
	_, err := plan.Key("pay")
	require.ErrorIs(t, err, runner.ErrStepUnsaved)
	require.ErrorIs(t, err, runner.ErrPlan)

	full := errors.New("disk full")
	file.err = full
	require.ErrorIs(t, plan.Save(t.Context(), file.save), full)
	_, err = plan.Key("pay")
	require.ErrorIs(t, err, runner.ErrStepUnsaved, "a save that failed saves nothing")

	file.err = nil
	require.NoError(t, plan.Save(t.Context(), file.save))
	require.Empty(t, plan.Unsaved())
	pay, err := plan.Key("pay")
	require.NoError(t, err)
	reserve, err := plan.Key("reserve")
	require.NoError(t, err)
	require.NotEqual(t, pay, reserve)

	require.NoError(t, plan.Add("pay", "ship"))
	require.Equal(t, []string{"ship"}, plan.Unsaved())
	again, err := plan.Key("pay")
	require.NoError(t, err)
	require.Equal(t, pay, again, "a step keeps its key")

	loaded, err := runner.LoadPlan(file.text)
	require.NoError(t, err)
	require.Empty(t, loaded.Unsaved())
	again, err = loaded.Key("pay")
	require.NoError(t, err)
	require.Equal(t, pay, again)
	_, err = loaded.Key("ship")
	var unknown *runner.PlanError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "ship", unknown.Step)
	require.NotErrorIs(t, err, runner.ErrStepUnsaved, "it was never added there")
}

// What is added while a save is under way is not in it, and not taken for saved.
func TestPlanAddDuringSave(t *testing.T) {
	t.Parallel()
	var plan runner.Plan
	require.NoError(t, plan.Add("pay"))
	require.NoError(t, plan.Save(t.Context(), func(context.Context, []byte) error { return plan.Add("ship") }))
	require.Equal(t, []string{"ship"}, plan.Unsaved())
	_, err := plan.Key("pay")
	require.NoError(t, err)
}

func TestPlanRefusesBadNames(t *testing.T) {
	t.Parallel()
	var plan runner.Plan
	require.ErrorIs(t, plan.Add("pay", ""), runner.ErrPlan)
	require.ErrorIs(t, plan.Add("pay", "a\xff"), runner.ErrPlan)
	require.Empty(t, plan.Unsaved(), "nothing is added")
}

func TestPlanIsPartOfACheckpoint(t *testing.T) {
	t.Parallel()
	type checkpoint struct {
		Turn int          `json:"turn"`
		Plan *runner.Plan `json:"plan"`
	}
	before := checkpoint{Turn: 3, Plan: &runner.Plan{}}
	require.NoError(t, before.Plan.Add("pay"))
	var text []byte
	require.NoError(t, before.Plan.Save(t.Context(), func(_ context.Context, plan []byte) (err error) {
		text, err = json.Marshal(before)
		return err
	}))
	var after checkpoint
	require.NoError(t, json.Unmarshal(text, &after))
	want, err := before.Plan.Key("pay")
	require.NoError(t, err)
	got, err := after.Plan.Key("pay")
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.JSONEq(t, fmt.Sprintf(`{"turn":3,"plan":{"version":1,"steps":{"pay":%q}}}`, want), string(text))
}

func TestPlanThatIsEmpty(t *testing.T) {
	t.Parallel()
	var file store
	require.NoError(t, new(runner.Plan).Save(t.Context(), file.save))
	require.Equal(t, `{"version":1,"steps":{}}`, string(file.text))
	plan, err := runner.LoadPlan(file.text)
	require.NoError(t, err)
	require.NoError(t, plan.Add("pay"))
	require.Equal(t, []string{"pay"}, plan.Unsaved())
}

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
		`{"version":1,"steps":{"a":""}}`:        `step "a": its key is empty`,
		`{"version":1,"steps":{"a":null}}`:      `step "a": its key is empty`,
		`{"version":1,"steps":{"a":1}}`:         "not the JSON of a plan",
		`{"version":1,"steps":{"":"k-secret"}}`: "empty name",
		`{"version":1,"steps":{"a":"k-secret","b":"k-secret"}}`:  `step "b": has the same key as step "a"`,
		`{"version":1,"steps":{"a":"k-secret","a":"k-secret2"}}`: "unique names",
		`{"version":1,"steps":{},"steps":{"a":"k-secret"}}`:      "unique names",
		`{"version":1,"steps":{},"turn":1}`:                      "not the JSON of a plan",
		`{"version":1,"steps":{}} {}`:                            "not JSON",
	} {
		plan, err := runner.LoadPlan([]byte(text))
		require.Nil(t, plan, text)
		var unusable *runner.PlanError
		require.ErrorAs(t, err, &unusable, text)
		require.ErrorIs(t, err, runner.ErrPlan)
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
				_, unsaved := plan.Key(step)
				added, saved := plan.Add("shared", step), plan.Save(t.Context(), save)
				_, err := plan.Key(step)
				if unsaved == nil {
					err = errors.New("a key before it was made")
				}
				failed[i] = errors.Join(failed[i], added, saved, err)
			}
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(failed...))
	loaded, err := runner.LoadPlan(last.text)
	require.NoError(t, err)
	want, err := plan.MarshalJSON()
	require.NoError(t, err)
	got, err := loaded.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "the last save has everything")
}

// Whatever is loaded has one key a step, and is saved as what was loaded.
func FuzzLoadPlan(f *testing.F) {
	for _, seed := range []string{`{"version":1,"steps":{"a":"k"}}`, `{"version":1,"steps":{"a":"k","a":"l"}}`, `{"VERSION":1,"Steps":{"é":"\u0000"}}`, `{}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		plan, err := runner.LoadPlan(text)
		if err != nil {
			require.ErrorIs(t, err, runner.ErrPlan)
			return
		}
		require.Empty(t, plan.Unsaved())
		saved, err := plan.MarshalJSON()
		require.NoError(t, err)
		again, err := runner.LoadPlan(saved)
		require.NoError(t, err)
		twice, err := again.MarshalJSON()
		require.NoError(t, err)
		require.Equal(t, string(saved), string(twice))
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
	require.NoError(t, plan.Add(steps...))
	err := plan.Save(t.Context(), func(context.Context, []byte) error { return errors.New("is not asked") })
	var refused *runner.PlanError
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "make several plans")
	require.Len(t, plan.Unsaved(), len(steps))
}
