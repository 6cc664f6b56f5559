package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
)

// Plan holds the keys of the steps that somebody is going to take, so that a
// process that starts again takes them with the same keys. A key is minted once,
// by Add, and is there only once it has been saved: a key that a crash can
// lose protects from nothing.
//
//	err := plan.Add(ctx, store, "reserve", "pay")
//	key, err := plan.Key("pay")
//
// A step of a plan that was loaded may have been tried: set Call.Resumed there.
// The errors of a plan are *[dedup.InvalidError], whose Field is the step, if it is one step's.
// They hold no key.
//
// The zero Plan is empty and ready to use. Any number of goroutines may use one;
// it must not be copied.
type Plan struct {
	mu   sync.Mutex // held through a save, so that an older one cannot come after a newer one
	keys map[string]string
}

// planVersion is the version of a plan's JSON.
const planVersion = 1

// planText is a plan as it is saved.
type planText struct {
	Version int               `json:"version"`
	Steps   map[string]string `json:"steps"`
}

// LoadPlan reads a plan that Add has saved. It refuses a plan of another version, and one that lost
// something: an empty key, a key of two steps, a step that occurs twice.
func LoadPlan(text []byte) (*Plan, error) {
	// encoding/json takes the last of two members of one name, and "Steps" for "steps". This refuses
	// both, and whatever else is not one JSON value.
	if _, err := dedup.FingerprintOf(json.RawMessage(text)); err != nil {
		return nil, badPlan("", "is not JSON with unique names")
	}
	var members map[string]json.RawMessage
	var plan planText
	if json.Unmarshal(text, &members) != nil || json.Unmarshal(text, &plan) != nil {
		return nil, badPlan("", "is not the JSON of a plan")
	}
	for name := range members {
		if name != "version" && name != "steps" {
			return nil, badPlan("", "is not the JSON of a plan")
		}
	}
	switch {
	case plan.Version != planVersion:
		return nil, badPlan("", fmt.Sprintf("has version %d, and this release knows %d only; load it with the release that saved it", plan.Version, planVersion))
	case plan.Steps == nil:
		return nil, badPlan("", "has lost its steps, and with them the keys that they were tried with")
	}
	owners := make(map[string]string, len(plan.Steps))
	for _, step := range slices.Sorted(maps.Keys(plan.Steps)) {
		key := plan.Steps[step]
		other, taken := owners[key]
		switch {
		case step == "" || key == "":
			return nil, badPlan(step, "has an empty name or key, so that nobody knows what was tried")
		case taken:
			return nil, badPlan(step, fmt.Sprintf("has the same key as step %q, and one of them would be answered with the other's result", other))
		}
		owners[key] = step
	}
	return &Plan{keys: plan.Steps}, nil
}

// Add mints keys for the steps that have none yet, and hands the plan's JSON with them to store; the
// other steps keep theirs, and where all have one store is not asked. That store returns nil means
// that the text would survive the process: a transaction is committed, a file is synced. Saves come
// one after the other, so store must not use the plan; ctx is handed on.
//
// Nothing is added where store fails, whose error is wrapped, nor with a name that is
// empty or not valid UTF-8. A plan whose JSON is longer than [dedup.MaxArgsSize] is
// refused, and store is not asked.
func (p *Plan) Add(ctx context.Context, store func(ctx context.Context, text []byte) error, steps ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := make(map[string]string, len(p.keys)+len(steps))
	maps.Copy(keys, p.keys)
	for _, step := range steps {
		if step == "" || !utf8.ValidString(step) { // JSON would make another name of it
			return badPlan(step, "is no name of a step; give each one of its own in UTF-8, the same in every run")
		}
		if keys[step] == "" {
			keys[step] = dedup.NewKey()
		}
	}
	if len(keys) == len(p.keys) {
		return nil
	}
	text, err := json.Marshal(planText{Version: planVersion, Steps: keys})
	if err != nil {
		return err
	}
	if len(text) > dedup.MaxArgsSize {
		return badPlan("", fmt.Sprintf("has %d steps, whose JSON is %d bytes; %d can be loaded: make several plans", len(keys), len(text), dedup.MaxArgsSize))
	}
	if err := store(ctx, text); err != nil {
		return fmt.Errorf("runner: saving the plan: %w", err)
	}
	p.keys = keys
	return nil
}

// Key returns the key of a step, the same in every run. It refuses a step that is not in the plan, and
// waits for an Add that is saving.
func (p *Plan) Key(step string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if key := p.keys[step]; key != "" {
		return key, nil
	}
	return "", badPlan(step, "is not in the plan; add it before its first try")
}

func badPlan(step, reason string) error {
	return &dedup.InvalidError{What: "plan", Field: step, Reason: reason}
}
