package external

import (
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
	o := &ask{Identity: id, nonce: newNonce()}
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
	return o, h.t.takes(text)
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
