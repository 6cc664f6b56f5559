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
// The errors of a plan are *[dedup.InvalidError], whose Field is the step, if it is one step's.
// They hold no key.
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

// LoadPlan reads a plan that Save has written, and takes all its
// keys for saved. It refuses a plan of another version, and one that lost something: an empty
// key, a key of two steps, a step that occurs twice.
func LoadPlan(text []byte) (*Plan, error) {
	keys, err := readPlan(text)
	if err != nil {
		return nil, err
	}
	return &Plan{keys: keys, saved: maps.Clone(keys)}, nil
}

// Add mints keys for the steps that have none yet; the others keep theirs. It refuses an
// empty name, and one that is not valid UTF-8, and then nothing is added.
func (p *Plan) Add(steps ...string) error {
	for _, step := range steps {
		if step == "" || !utf8.ValidString(step) { // JSON would make another name of it
			return badPlan(step, "is no name of a step; give each one of its own in UTF-8, the same in every run")
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
// store must not save the plan itself. An error of store is wrapped,
// and nothing counts as saved; ctx is handed on. A plan whose JSON is
// longer than [dedup.MaxArgsSize] is refused, and store is not asked.
func (p *Plan) Save(ctx context.Context, store func(ctx context.Context, text []byte) error) error {
	p.saving.Lock()
	defer p.saving.Unlock()
	p.mu.Lock()
	keys := make(map[string]string, len(p.keys))
	maps.Copy(keys, p.keys)
	p.mu.Unlock()
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
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saved = keys
	return nil
}

// Key returns the key of a step, the same in every run. It refuses a step that was never
// added, and one whose key has not been saved.
func (p *Plan) Key(step string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch key := p.keys[step]; {
	case key == "":
		return "", badPlan(step, "is not in the plan; add it and save the plan before its first try")
	case key != p.saved[step]:
		return "", badPlan(step, "has a key that has not been saved; save the plan before the first try")
	default:
		return key, nil
	}
}

func badPlan(step, reason string) error {
	return &dedup.InvalidError{What: "plan", Field: step, Reason: reason}
}

// readPlan reads a plan's JSON, and refuses what could merge or lose keys.
func readPlan(text []byte) (map[string]string, error) {
	// encoding/json takes the last of two members of one name; this refuses both,
	// and whatever else is not one JSON value.
	if _, err := dedup.FingerprintOf(json.RawMessage(text)); err != nil {
		return nil, badPlan("", "is not JSON with unique names")
	}
	// To encoding/json "Steps" is "steps" as well; a map keeps them apart.
	var members map[string]json.RawMessage
	var plan planText
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&plan); err != nil || json.Unmarshal(text, &members) != nil || len(members) > 2 {
		return nil, badPlan("", "is not the JSON of a plan")
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
	return plan.Steps, nil
}
