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

// Plan holds the keys of the steps of a run, so that a process that starts again takes the steps
// with the same keys. Add makes a key once and saves it. A key is usable only after it was saved,
// because a key that a crash can lose prevents nothing.
//
//	err := plan.Add(ctx, store, "reserve", "pay")
//	key, err := plan.Key("pay")
//
// A step of a loaded plan may have been tried: set Call.Resumed. The methods return
// *[dedup.InvalidError]; its Field is the step, or empty if the whole plan is wrong. No error holds
// a key.
//
// The zero Plan is empty and ready to use. It is safe for concurrent use and must not be copied.
type Plan struct {
	mu   sync.Mutex // held while saving, so that saves keep their order
	keys map[string]string
}

// planVersion is the version of a plan's JSON.
const planVersion = 1

// planText is the JSON of a plan.
type planText struct {
	Version int               `json:"version"`
	Steps   map[string]string `json:"steps"`
}

// LoadPlan reads a plan that Add saved. It refuses a plan of another version and a damaged one:
// with an empty key, with two steps of one key, or with a step that occurs twice.
func LoadPlan(text []byte) (*Plan, error) {
	// encoding/json keeps the last of two members of one name, and accepts "Steps" for "steps".
	// FingerprintOf refuses repeated names and anything that is not one JSON value; the loop
	// refuses other spellings.
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
			return nil, badPlan(step, "has an empty name or key, so its earlier tries are unknown")
		case taken:
			return nil, badPlan(step, fmt.Sprintf("has the same key as step %q, and one of them would be answered with the other's result", other))
		}
		owners[key] = step
	}
	return &Plan{keys: plan.Steps}, nil
}

// Add makes keys for the steps that have none, and calls store with the plan's JSON. Other steps
// keep their keys. If all have keys, store is not called. store must return nil only if the text
// survives the process: a transaction was committed, or a file was synced. Saves run one after the
// other, so store must not use the plan. ctx is passed to store.
//
// If store fails, Add wraps its error and adds nothing. Add refuses a name that is empty or not
// valid UTF-8. It refuses a plan whose JSON exceeds [dedup.MaxArgsSize], without calling store.
func (p *Plan) Add(ctx context.Context, store func(ctx context.Context, text []byte) error, steps ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := make(map[string]string, len(p.keys)+len(steps))
	maps.Copy(keys, p.keys)
	for _, step := range steps {
		if step == "" || !utf8.ValidString(step) { // JSON would change the name
			return badPlan(step, "is not a name of a step; give each step its own name in UTF-8, the same in every run")
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

// Key returns the key of a step, the same in every run. It refuses a step that is not in the plan.
// It waits for an Add that is saving.
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
