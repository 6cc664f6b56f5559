package runner

import (
	"bytes"
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
// by Add, and handed out only once it has been saved: a key that a crash can
// lose protects from nothing.
//
//	plan.Add("reserve", "pay")
//	plan.Save(ctx, store)
//	key, err := plan.Key("pay")
//
// A step of a plan that was loaded may have been tried: set Call.Resumed there.
//
// The zero Plan is empty and ready to use. Any number of goroutines may use one;
// it must not be copied.
type Plan struct {
	saving sync.Mutex // held through a save, so that an older one cannot come after a newer one
	mu     sync.Mutex // guards what follows
	keys   map[string]string
	saved  map[string]string // of keys, what has been saved
}

// planVersion is the version of a plan's JSON.
const planVersion = 1

// planText is a plan as it is saved.
type planText struct {
	Version int               `json:"version"`
	Steps   map[string]string `json:"steps"`
}

// LoadPlan reads a plan that Save or MarshalJSON has written, and takes all its
// keys for saved. A plan of another version, or one that lost something (an empty
// key, a key of two steps, a step that occurs twice) is a *[PlanError].
func LoadPlan(text []byte) (*Plan, error) {
	p := &Plan{}
	if err := p.UnmarshalJSON(text); err != nil {
		return nil, err
	}
	return p, nil
}

// Add mints keys for the steps that have none yet; the others keep theirs. An
// empty name, or one that is not valid UTF-8, is a *[PlanError], and then nothing
// is added.
func (p *Plan) Add(steps ...string) error {
	for _, step := range steps {
		switch {
		case step == "":
			return &PlanError{Reason: "a step has an empty name; give each a name of its own, the same in every run"}
		case !utf8.ValidString(step): // JSON would make another name of it
			return &PlanError{Step: step, Reason: "its name is not valid UTF-8; encode binary names as hex"}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys = make(map[string]string)
	}
	for _, step := range steps {
		if p.keys[step] == "" {
			p.keys[step] = dedup.NewKey()
		}
	}
	return nil
}

// Save hands the plan's JSON to store, and takes the keys in it for saved once
// store returns nil. That means that the text would survive the process: a
// transaction is committed, a file is synced. Saves come one after the other, so
// store must not save the plan itself. An error of store is wrapped in a
// *[PlanError], and nothing counts as saved; ctx is handed on. A plan whose JSON is
// longer than [dedup.MaxArgsSize] is a *[PlanError], and store is not asked.
func (p *Plan) Save(ctx context.Context, store func(ctx context.Context, text []byte) error) error {
	p.saving.Lock()
	defer p.saving.Unlock()
	keys := p.snapshot()
	text, err := encodePlan(keys)
	if err != nil {
		return err
	}
	if err := store(ctx, text); err != nil {
		return &PlanError{Reason: "saving it", Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved = keys
	return nil
}

// Key returns the key of a step, the same in every run. A step that was never
// added is a *[PlanError]; one whose key has not been saved is [ErrStepUnsaved]
// too.
func (p *Plan) Key(step string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch key := p.keys[step]; {
	case key == "":
		return "", &PlanError{Step: step, Reason: "is not in the plan; add it and save the plan before its first try"}
	case key != p.saved[step]:
		return "", &PlanError{Step: step, Err: ErrStepUnsaved}
	default:
		return key, nil
	}
}

// Unsaved returns the names of the steps whose keys have not been saved, sorted.
func (p *Plan) Unsaved() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var unsaved []string
	for step, key := range p.keys {
		if key != p.saved[step] {
			unsaved = append(unsaved, step)
		}
	}
	slices.Sort(unsaved)
	return unsaved
}

// MarshalJSON returns {"version":1,"steps":{name: key}}. It does not make the
// keys saved: where the plan is part of a larger checkpoint, write that in Save.
func (p *Plan) MarshalJSON() ([]byte, error) {
	return encodePlan(p.snapshot())
}

// UnmarshalJSON replaces the plan by one that has been saved. See [LoadPlan].
func (p *Plan) UnmarshalJSON(text []byte) error {
	keys, err := decodePlan(text)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys, p.saved = keys, maps.Clone(keys)
	return nil
}

// snapshot returns a copy of the plan's keys, empty and not nil where it has none.
func (p *Plan) snapshot() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		return map[string]string{}
	}
	return maps.Clone(p.keys)
}

// encodePlan makes no JSON that decodePlan would refuse.
func encodePlan(keys map[string]string) ([]byte, error) {
	text, err := json.Marshal(planText{Version: planVersion, Steps: keys})
	if err == nil && len(text) > dedup.MaxArgsSize {
		return nil, &PlanError{Reason: fmt.Sprintf("has %d steps, whose JSON is %d bytes; %d can be loaded: make several plans", len(keys), len(text), dedup.MaxArgsSize)}
	}
	return text, err
}

// decodePlan reads a plan's JSON and refuses what could merge or lose keys.
func decodePlan(text []byte) (map[string]string, error) {
	// encoding/json takes the last of two members of one name; this refuses both,
	// and whatever else is not one JSON value.
	if _, err := dedup.FingerprintOf(json.RawMessage(text)); err != nil {
		return nil, &PlanError{Reason: "is not JSON with unique names", Err: err}
	}
	// To encoding/json "Steps" is "steps" as well; a map keeps them apart.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err == nil && len(members) > 2 {
		return nil, &PlanError{Reason: "is not the JSON of a plan: it has more members than version and steps"}
	}
	var plan planText
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&plan); err != nil {
		return nil, &PlanError{Reason: "is not the JSON of a plan", Err: err}
	}
	switch {
	case plan.Version != planVersion:
		return nil, &PlanError{Reason: fmt.Sprintf("has version %d, and this release knows %d only; load it with the release that saved it", plan.Version, planVersion)}
	case plan.Steps == nil:
		return nil, &PlanError{Reason: "has lost its steps, and with them the keys that they were tried with"}
	}
	if err := checkSteps(plan.Steps); err != nil {
		return nil, err
	}
	return plan.Steps, nil
}

// checkSteps refuses keys with which a step would run again, or be answered with
// another's result.
func checkSteps(keys map[string]string) error {
	owners := make(map[string]string, len(keys))
	for _, step := range slices.Sorted(maps.Keys(keys)) {
		key := keys[step]
		switch other, taken := owners[key]; {
		case step == "":
			return &PlanError{Reason: "a step has an empty name"}
		case key == "":
			return &PlanError{Step: step, Reason: "its key is empty, so nobody knows with which one it was tried"}
		case taken:
			return &PlanError{Step: step, Reason: fmt.Sprintf("has the same key as step %q, and one of them would be answered with the other's result", other)}
		}
		owners[key] = step
	}
	return nil
}
