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

// ask is a call on its way.
type ask struct {
	table.Identity
	fingerprint [32]byte
	argDigests  []byte
	input       string
	// keyless and unmarked are those of the tool.
	keyless, unmarked bool
	// nonce tells the claims of this call from others. lostSince is before the first of them was sent
	// whose answer was lost, zero where none was.
	nonce     string
	lostSince time.Time
}

// ask checks a call.
func (h *Handle[In, Out]) ask(call dedup.Call, in In) (*ask, error) {
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
	o := &ask{Identity: id, nonce: newNonce(), keyless: h.t.keyless(), unmarked: h.t.unmarked()}
	o.fingerprint, o.argDigests, err = canon.Digest(id.Scope, id.Tool, id.Key, compared)
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
	o.input = string(text)
	if err := h.t.takes(text); err != nil {
		return nil, err
	}
	return o, survives(in, text)
}

// survives checks that an input is the same when it is read from what is stored: a number above 2^53 inside an any loses
// digits, and so may a map whose keys have no MarshalText. JSON that the caller gives is stored as it is.
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
		err = &dedup.InvalidError{What: "call", Field: "in", Reason: "is another when it is read back from its JSON; use types that JSON keeps, such as json.Number in place of any for a large number"}
	}
	return err
}

// identity checks what names an operation.
func identity(scope, tool, key string) (table.Identity, error) {
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	if field, problem := id.Problem(); problem != "" {
		given := map[string]string{"Scope": scope, "Tool": tool, "Key": key}[field]
		return table.Identity{}, &dedup.InvalidError{What: "call", Field: field, Missing: given == "", Reason: problem}
	}
	return id, nil
}

// answer is an error that an operation without a record answers.
func (o *ask) answer(answer, cause error) error {
	return &dedup.Error{Answer: answer, Scope: o.Scope, Tool: o.Tool, KeyHash: dedup.KeyHash(o.Key), Err: cause}
}

// reused is the answer to a key that came with other arguments before.
func (o *ask) reused(stored []byte, firstAt time.Time) error {
	changed, complete := canon.ChangedArgs(stored, o.argDigests)
	return &dedup.Error{
		Answer: dedup.ErrKeyReused, Scope: o.Scope, Tool: o.Tool, KeyHash: dedup.KeyHash(o.Key),
		FirstAt: firstAt, Changed: changed, Complete: complete,
	}
}
