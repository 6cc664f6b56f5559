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

// known is what a call's page shows.
type known struct {
	*inspect.Call
	// Hidden is true where there is a result or a refusal that the visitor may not see.
	Hidden bool
	// Free says whether the visitor may free the record, and Mend whether they may say that a broken one
	// happened. Resolve says whether they may say what became of the operation, and Clear whether they may say
	// that it is put right after it has happened twice.
	Free, Mend, Resolve, Clear bool
	// Zero is the zero value of the tool's results, and Schema is their JSON Schema. Both are empty for
	// a tool that is not here.
	Zero, Schema string
	// Problem says why an act was refused, whose form was filled in with Form.
	Problem string
	Form    url.Values
}

// Filled is what a field of a form was filled in with, else what it begins with.
func (k *known) Filled(field, first string) string {
	if k.Form == nil {
		return first
	}
	return k.Form.Get(field)
}

// Hash is that of the key.
func (k *known) Hash() string { return dedup.KeyHash(k.Key) }

// IsHash reports whether the key looks like the hash of one.
func (k *known) IsHash() bool { return isHash.MatchString(k.Key) }

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

func (c *console) readCall(v *visit, id call) (*known, error) {
	found, err := c.db.Call(v.r.Context(), id.Scope, id.Tool, id.Key)
	switch {
	case errors.Is(err, dedup.ErrSchema):
		return nil, fail(http.StatusInternalServerError, "The table tool_dedup is not sound; `dedup migrate check` says what is wrong.")
	case err != nil:
		return nil, err
	}
	k := &known{Call: found}
	if !v.Results {
		k.Hidden = found.Hide()
		for i := range found.Sessions {
			found.Sessions[i].Statement = ""
		}
	}
	k.Free = v.Act && !found.CreatedAt.IsZero() && found.Operation == nil // that is resolved, and never freed
	k.Mend = k.Free && found.State == string(dedup.StateBroken)
	if op := found.Operation; op != nil {
		k.Resolve = v.Act && op.State != external.Done
		k.Clear = v.Act && op.State == external.Done && op.Twice != ""
		k.Zero, k.Schema = resultOf(c.tools.Out(id.Tool))
	}
	return k, nil
}

// resultOf is the zero value of a type and its schema, as JSON.
func resultOf(out reflect.Type) (zero, schema string) {
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
