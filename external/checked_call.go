package external

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/canon"
	"github.com/tooldedup/dedup/internal/table"
)

// checkedCall is a call whose arguments were checked, with its fingerprint and its input as JSON.
type checkedCall struct {
	table.Identity
	fingerprint [32]byte
	argDigests  []byte
	input       string
	// keyless and unmarked are the tool's, for the row.
	keyless, unmarked bool
	// nonce identifies the claims of this call. lostSince is the time before the first claim whose
	// reply was lost, zero if none was.
	nonce     string
	lostSince time.Time
}

// check validates a call and encodes its input.
func (h *Handle[In, Out]) check(call dedup.Call, in In) (*checkedCall, error) {
	if call.Tool != "" && call.Tool != h.t.Name {
		return nil, &dedup.InvalidError{What: "call", Field: "Tool", Reason: "is another tool's; leave it empty"}
	}
	id, err := identity(call.Scope, h.t.Name, call.Key)
	if err != nil {
		return nil, err
	}
	compared := call.Args
	if compared == nil {
		compared = in
	}
	c := &checkedCall{Identity: id, nonce: newNonce(), keyless: h.t.keyless(), unmarked: h.t.unmarked()}
	c.fingerprint, c.argDigests, err = canon.Digest(id.Scope, id.Tool, id.Key, compared)
	if err == nil {
		_, err = canon.FingerprintOf(in)
	}
	if problem, ok := errors.AsType[*canon.Error](err); ok {
		return nil, &dedup.InvalidError{What: "call", Field: "Args", Reason: problem.Reason, Err: problem.Err}
	}
	if err != nil {
		return nil, err
	}
	text, err := marshal(in)
	if err != nil {
		return nil, err
	}
	c.input = string(text)
	if err := h.t.checkInput(text); err != nil {
		return nil, err
	}
	return c, survives(in, text)
}

// survives checks that an input is unchanged when it is read back from its JSON. A number above
// 2^53 in an any loses digits, and map keys without MarshalText may be lost. A json.RawMessage is
// stored as it is.
func survives[In any](in In, text []byte) error {
	if _, raw := any(in).(json.RawMessage); raw {
		return nil
	}
	read, err := decodeInput[In](text)
	if err != nil {
		return err
	}
	again, err := encode(read)
	if err == nil && !bytes.Equal(again, text) {
		err = &dedup.InvalidError{What: "call", Field: "in", Reason: "changes when it is read back from its JSON; use types that JSON preserves, such as json.Number instead of any for a large number"}
	}
	return err
}

// identity checks the names of an operation.
func identity(scope, tool, key string) (table.Identity, error) {
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	if field, problem := id.Problem(); problem != "" {
		given := map[string]string{"Scope": scope, "Tool": tool, "Key": key}[field]
		return table.Identity{}, &dedup.InvalidError{What: "call", Field: field, Missing: given == "", Reason: problem}
	}
	return id, nil
}

// dedupError returns a *dedup.Error for the call.
func (c *checkedCall) dedupError(answer, cause error) error {
	return &dedup.Error{Kind: answer, Scope: c.Scope, Tool: c.Tool, KeyHash: dedup.KeyHash(c.Key), Err: cause}
}

// reused returns the error of a key that was used with other arguments.
func (c *checkedCall) reused(stored []byte, createdAt time.Time) error {
	changed, complete := canon.ChangedArgs(stored, c.argDigests)
	return &dedup.Error{
		Kind: dedup.ErrKeyReused, Scope: c.Scope, Tool: c.Tool, KeyHash: dedup.KeyHash(c.Key),
		CreatedAt: createdAt, Changed: changed, Complete: complete,
	}
}
