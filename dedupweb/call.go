package dedupweb

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/inspect"
	"github.com/tooldedup/dedup/tool"
)

// callPage is the data of a call's page.
type callPage struct {
	*inspect.Call
	// Hidden is true if there is a result or a refusal that the visitor may not see.
	Hidden bool
	// These are the acts that the visitor may do: Free deletes the record, Mend gives a broken
	// record its result, Resolve gives the operation a verdict, and Clear marks an operation that
	// happened twice as put right.
	Free, Mend, Resolve, Clear bool
	// Zero is the zero value of the tool's result as JSON, and Schema its JSON Schema. Both are
	// empty if the tool is not registered here.
	Zero, Schema string
	// Problem is the reason why an act was refused, and Form is its form.
	Problem string
	Form    url.Values
}

// Filled returns the value of a field of the refused form, or first if there is none.
func (k *callPage) Filled(field, first string) string {
	if k.Form == nil {
		return first
	}
	return k.Form.Get(field)
}

// Hash is the key's hash.
func (k *callPage) Hash() string { return dedup.KeyHash(k.Key) }

// IsHash reports whether the key has the form of a hash.
func (k *callPage) IsHash() bool { return isHash.MatchString(k.Key) }

func (c *console) showCall(v *visit) error {
	id, err := v.identity()
	if err != nil {
		return err
	}
	k, err := c.readCall(v, id)
	if err != nil {
		return err
	}
	return v.page("call", k)
}

func (c *console) readCall(v *visit, id call) (*callPage, error) {
	found, err := c.db.Call(v.r.Context(), id.Scope, id.Tool, id.Key)
	switch {
	case errors.Is(err, dedup.ErrSchema):
		return nil, fail(http.StatusInternalServerError, "The table tool_dedup is not sound; `dedup migrate check` says what is wrong.")
	case err != nil:
		return nil, err
	}
	k := &callPage{Call: found}
	if !v.Results {
		k.Hidden = found.Hide()
		for i := range found.Sessions {
			found.Sessions[i].Statement = ""
		}
	}
	k.Free = v.Act && !found.CreatedAt.IsZero() && found.Operation == nil // an operation is resolved, never freed
	k.Mend = k.Free && found.State == string(dedup.StateBroken)
	if op := found.Operation; op != nil {
		k.Resolve = v.Act && op.State != external.StateDone
		k.Clear = v.Act && op.State == external.StateDone && op.Twice != ""
		k.Zero, k.Schema = zeroAndSchema(c.tools.Out(id.Tool))
	}
	return k, nil
}

// zeroAndSchema returns the zero value of a type and its JSON Schema, both as JSON.
func zeroAndSchema(out reflect.Type) (zero, schema string) {
	if out == nil {
		return "", ""
	}
	if text, err := (tool.Info{Out: out}).OutputSchema(); err == nil {
		schema = indented(text)
	}
	for out.Kind() == reflect.Pointer {
		out = out.Elem()
	}
	if text, err := json.Marshal(reflect.Zero(out).Interface()); err == nil {
		zero = indented(text)
	}
	return zero, schema
}

func indented(text []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, text, "", "  ") != nil {
		return string(text)
	}
	return out.String()
}
