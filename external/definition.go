package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// definition is a Tool without its types.
type definition struct {
	untyped
	name                      string
	finds                     bool
	keyKept, settles, timeout time.Duration
	retention                 dedup.Retention
}

// untyped is what a tool does, with inputs and results as JSON.
type untyped interface {
	perform(ctx context.Context, a Attempt, in json.RawMessage) (json.RawMessage, error)
	find(ctx context.Context, a Attempt, in json.RawMessage) ([]json.RawMessage, error)
	// finish and refused do nothing where the tool does not write.
	finish(ctx context.Context, tx pgx.Tx, in, out json.RawMessage) error
	refused(ctx context.Context, tx pgx.Tx, in json.RawMessage, why error) error
	ref(out json.RawMessage) string
	// takes says whether the tool can read an input: one that it cannot would be attempted for
	// ever. verdict is the result that a person has given, as the tool itself would write it.
	takes(in json.RawMessage) error
	verdict(out json.RawMessage) (json.RawMessage, error)
}

func (t *Tool[In, Out]) erase() *definition {
	return &definition{
		untyped: typed[In, Out]{*t}, name: t.Name, finds: t.Find != nil,
		keyKept: t.KeyKept, settles: t.Settles, timeout: t.timeout(), retention: t.Retention,
	}
}

type typed[In, Out any] struct{ of Tool[In, Out] }

func (t typed[In, Out]) perform(ctx context.Context, a Attempt, raw json.RawMessage) (json.RawMessage, error) {
	in, err := decodeInput[In](raw)
	if err != nil {
		return nil, NotDone(err)
	}
	out, err := t.of.Perform(ctx, a, in)
	if err != nil {
		return nil, err
	}
	return t.happened(out)
}

func (t typed[In, Out]) find(ctx context.Context, a Attempt, raw json.RawMessage) (all []json.RawMessage, err error) {
	in, err := decodeInput[In](raw)
	if err != nil {
		return nil, err
	}
	outs, err := t.of.Find(ctx, a, in)
	for _, out := range outs {
		text, err := t.happened(out)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, err
}

func (t typed[In, Out]) finish(ctx context.Context, tx pgx.Tx, rawIn, rawOut json.RawMessage) error {
	if t.of.Finish == nil {
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
	return guarded(func() error { return t.of.Finish(ctx, tx, in, out) })
}

func (t typed[In, Out]) refused(ctx context.Context, tx pgx.Tx, raw json.RawMessage, why error) error {
	if t.of.Refused == nil {
		return nil
	}
	in, err := decodeInput[In](raw)
	if err != nil {
		return err
	}
	return guarded(func() error { return t.of.Refused(ctx, tx, in, why) })
}

func (t typed[In, Out]) ref(raw json.RawMessage) string {
	out, err := decode[Out](raw)
	if err != nil {
		return ""
	}
	return t.refOf(out)
}

// refOf is the ref of a result; none where there is no Ref, or it panics.
func (t typed[In, Out]) refOf(out Out) string {
	if t.of.Ref == nil {
		return ""
	}
	text, _ := safely(func() (string, error) { return t.of.Ref(out), nil })
	return cleaned(text)
}

var errNoRef = errors.New("dedup: the result lacks the provider's id, which the tool's Ref returns")

// happened is the text of a result. One without a ref, such as that of a body which the client did not
// understand, is not known to be an effect. One that has no text is an effect all the same.
func (t typed[In, Out]) happened(out Out) (json.RawMessage, error) {
	ref := t.refOf(out)
	if t.of.Ref != nil && ref == "" {
		return nil, errNoRef
	}
	text, err := encode(out)
	if err != nil {
		return nil, &unrecordable{err, ref}
	}
	return text, nil
}

func (t typed[In, Out]) takes(raw json.RawMessage) error {
	_, err := decodeInput[In](raw)
	return err
}

// verdict reads a result that a person has written, who may not know the names of the
// tool's fields: a member that Out lacks, a null that is no Out, or a result without a ref
// is no result of this tool. What the library has kept itself, because it could not be
// recorded, is taken as it is.
func (t typed[In, Out]) verdict(raw json.RawMessage) (json.RawMessage, error) {
	out, err := decode[Out](raw)
	if err != nil {
		return nil, err
	}
	text, err := encode(out)
	if err != nil || bytes.Equal(text, raw) {
		return text, err
	}
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, errors.New("dedup: null is no result of the tool")
	}
	if err := strictly[Out](raw); err != nil {
		return nil, fmt.Errorf("dedup: it is no result of the tool: %w", err)
	}
	if t.of.Ref != nil && t.refOf(out) == "" {
		return nil, errNoRef
	}
	if reflect.TypeFor[Out]().Kind() == reflect.Struct { // whose fields have one spelling
		return text, nil
	}
	return raw, nil // which keeps every digit of a number
}
