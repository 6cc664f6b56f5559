package external

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
)

// definition is a Tool whose inputs and results are JSON, and whose defaults are filled in. Finish and Refused do
// nothing where the tool does not write. Find is nil where the tool has none.
type definition struct {
	Tool[json.RawMessage, json.RawMessage]
	// takes says why the tool cannot read an input: it would be attempted for ever.
	takes func(in json.RawMessage) error
	// verdict is the result that a person has given, as the tool itself would write it.
	verdict func(out json.RawMessage) (json.RawMessage, error)
	out     reflect.Type
}

func (t *Tool[In, Out]) erase() *definition {
	d := &definition{Tool: Tool[json.RawMessage, json.RawMessage]{
		Name: t.Name, Perform: t.performJSON, Finish: t.finishJSON, Refused: t.refusedJSON,
		Ref: func(raw json.RawMessage) string {
			out, err := decode[Out](raw)
			if err != nil {
				return ""
			}
			return t.ref(out)
		},
		KeyKept: t.KeyKept, Settles: t.Settles, Timeout: t.timeout(), Retention: t.Retention,
	}}
	if t.Find != nil {
		d.Find = t.findJSON
	}
	d.takes = func(in json.RawMessage) error {
		_, err := decodeInput[In](in)
		return err
	}
	d.verdict, d.out = t.verdict, reflect.TypeFor[Out]()
	return d
}

func (t *Tool[In, Out]) timeout() time.Duration { return cmp.Or(t.Timeout, defaultTimeout) }

// What a row keeps of its attempts, because a later release may declare it otherwise: that they go out without
// a key, and that a look-up is not made to find them.
func (d *definition) keyless() bool  { return d.KeyKept == 0 }
func (d *definition) unmarked() bool { return d.Find == nil }

const defaultTimeout = 20 * time.Second

func (t *Tool[In, Out]) performJSON(ctx context.Context, a Attempt, raw json.RawMessage) (json.RawMessage, error) {
	in, err := decodeInput[In](raw)
	if err != nil {
		return nil, NotDone(err)
	}
	out, err := t.Perform(ctx, a, in)
	if err != nil {
		return nil, err
	}
	return t.happened(out)
}

func (t *Tool[In, Out]) findJSON(ctx context.Context, a Attempt, raw json.RawMessage) (all []json.RawMessage, err error) {
	in, err := decodeInput[In](raw)
	if err != nil {
		return nil, err
	}
	outs, err := t.Find(ctx, a, in)
	var unnamed []json.RawMessage
	for _, out := range outs {
		text, failed := t.happened(out)
		if errors.Is(failed, errNoRef) {
			if text, failed = encode(out); failed == nil {
				unnamed = append(unnamed, text)
				continue
			}
		}
		if failed != nil {
			return nil, failed
		}
		all = append(all, text)
	}
	if len(unnamed) > 0 && len(all) == 0 {
		return nil, cmp.Or(err, errNoRef)
	}
	return append(all, unnamed...), err // beside an effect with a ref they are reported as further ones
}

func (t *Tool[In, Out]) finishJSON(ctx context.Context, tx pgx.Tx, rawIn, rawOut json.RawMessage) error {
	if t.Finish == nil {
		return nil
	}
	out, err := decode[Out](rawOut)
	if err != nil {
		return err
	}
	in, err := decodeInput[In](rawIn)
	if err != nil {
		return err
	}
	return guarded(func() error { return t.Finish(ctx, tx, in, out) })
}

func (t *Tool[In, Out]) refusedJSON(ctx context.Context, tx pgx.Tx, raw json.RawMessage, why error) error {
	if t.Refused == nil {
		return nil
	}
	in, err := decodeInput[In](raw)
	if err != nil {
		return err
	}
	return guarded(func() error { return t.Refused(ctx, tx, in, why) })
}

// ref is the ref of a result; none where there is no Ref, or it panics.
func (t *Tool[In, Out]) ref(out Out) string {
	if t.Ref == nil {
		return ""
	}
	text, _ := safely(func() (string, error) { return t.Ref(out), nil })
	return cleaned(text)
}

var errNoRef = errors.New("dedup: the result lacks the provider's id, which the tool's Ref returns")

// happened is the text of a result. One without a ref, such as that of a body which the client did not
// understand, is not known to be an effect. One that has no text is an effect all the same.
func (t *Tool[In, Out]) happened(out Out) (json.RawMessage, error) {
	ref := t.ref(out)
	if t.Ref != nil && ref == "" {
		return nil, errNoRef
	}
	text, err := encode(out)
	if err != nil {
		return nil, &unrecordable{err, ref}
	}
	return text, nil
}

// verdict reads a result that a person has written, who may not know the names of the
// tool's fields: a member that Out lacks, a null that is no Out, or a result without a ref
// is no result of this tool.
func (t *Tool[In, Out]) verdict(raw json.RawMessage) (json.RawMessage, error) {
	out, err := decode[Out](raw)
	if err != nil {
		return nil, err
	}
	text, err := encode(out)
	if err != nil {
		return nil, err
	}
	own := bytes.Equal(text, raw) // the tool writes it like that
	if !own && bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, errors.New("dedup: null is no result of the tool")
	}
	switch {
	case !own && !fits[Out](raw, true):
		return nil, errors.New("dedup: it is no result of the tool: it " + lacking[Out](raw, "result"))
	case t.Ref != nil && t.ref(out) == "":
		return nil, errNoRef
	case own || reflect.TypeFor[Out]().Kind() == reflect.Struct: // whose fields have one spelling
		return text, nil
	}
	return raw, nil // which keeps every digit of a number
}
