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

// definition is a Tool with JSON inputs and results and its defaults filled in. Finish and Refused
// do nothing if the tool has none. Find is nil if the tool has none.
type definition struct {
	Tool[json.RawMessage, json.RawMessage]
	// checkInput returns why the tool cannot read an input.
	checkInput func(in json.RawMessage) error
	// checkVerdict checks the result of an operator's verdict and returns it as the tool would
	// write it.
	checkVerdict func(out json.RawMessage) (json.RawMessage, error)
	out          reflect.Type
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
	d.checkInput = func(in json.RawMessage) error {
		_, err := decodeInput[In](in)
		return err
	}
	d.checkVerdict, d.out = t.checkVerdict, reflect.TypeFor[Out]()
	return d
}

func (t *Tool[In, Out]) timeout() time.Duration { return cmp.Or(t.Timeout, defaultTimeout) }

// A row keeps how its attempts were sent, because a later release may declare the tool otherwise.
// keyless means that they are sent without a key, unmarked that no Find was declared.
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
	return t.encodeEffect(out)
}

func (t *Tool[In, Out]) findJSON(ctx context.Context, a Attempt, raw json.RawMessage) (all []json.RawMessage, err error) {
	in, err := decodeInput[In](raw)
	if err != nil {
		return nil, err
	}
	outs, err := t.Find(ctx, a, in)
	var unnamed []json.RawMessage
	for _, out := range outs {
		text, failed := t.encodeEffect(out)
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
	return append(all, unnamed...), err // effects without a ref are reported as further ones
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

// ref returns the ref of a result. It is empty if there is no Ref or Ref panics.
func (t *Tool[In, Out]) ref(out Out) string {
	if t.Ref == nil {
		return ""
	}
	text, _ := safely(func() (string, error) { return t.Ref(out), nil })
	return cleaned(text)
}

var errNoRef = errors.New("dedup: the result lacks the provider's id, which the tool's Ref returns")

// encodeEffect encodes an effect's result. A result without a ref may come from a body that the
// client did not understand, so it does not prove an effect. A result that cannot be encoded does.
func (t *Tool[In, Out]) encodeEffect(out Out) (json.RawMessage, error) {
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

// checkVerdict reads a result that an operator wrote, perhaps without knowing the names of the
// tool's fields. A member that Out lacks, an unexpected null and a missing ref are errors.
func (t *Tool[In, Out]) checkVerdict(raw json.RawMessage) (json.RawMessage, error) {
	out, err := decode[Out](raw)
	if err != nil {
		return nil, err
	}
	text, err := encode(out)
	if err != nil {
		return nil, err
	}
	own := bytes.Equal(text, raw) // the tool's own encoding
	if !own && bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, errors.New("dedup: null is not a result of the tool")
	}
	switch {
	case !own && !fits[Out](raw, true):
		return nil, errors.New("dedup: not a result of the tool: it " + lacking[Out](raw, "result"))
	case t.Ref != nil && t.ref(out) == "":
		return nil, errNoRef
	case own || reflect.TypeFor[Out]().Kind() == reflect.Struct: // a struct has one encoding
		return text, nil
	}
	return raw, nil // keeps every digit of a number
}
