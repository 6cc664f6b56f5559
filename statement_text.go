package dedup

import (
	"cmp"
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/sqllex"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// statementText is what is made of a Statement's SQL, once for each text.
type statementText struct {
	// params is how many parameters it has.
	params int
	// effect runs the statement. alone and among run it and write its record; see
	// table.Combined.
	effect, alone, among wire.Query
}

// statementTexts remember what was made of the texts that were used.
type statementTexts struct {
	table *table.Table

	mu sync.RWMutex
	m  map[string]*statementText
}

// maxStatementTexts bounds the memory of programs that put values into their
// texts. It is the size of pgx's own cache of statements.
const maxStatementTexts = 512

// bind makes a statement ready to be sent, or returns an ErrInvalid.
func (t *statementTexts) bind(ctx context.Context, sql string, args []any, onError func(error) error) (*boundStatement, error) {
	if len(args) > 0 {
		if rewriter, ok := args[0].(pgx.QueryRewriter); ok {
			var err error
			if sql, args, err = rewriter.RewriteQuery(ctx, nil, sql, args[1:]); err != nil {
				return nil, &InvalidError{What: "call", Field: "Statement", Reason: "could not be rewritten", Err: err}
			}
		}
	}
	text, err := t.text(sql)
	if err != nil {
		return nil, err
	}
	if len(args) != text.params {
		return nil, invalid("Statement", "has %d parameters and %d arguments", text.params, len(args))
	}
	return &boundStatement{statementText: text, args: args, onError: onError}, nil
}

func (t *statementTexts) text(sql string) (*statementText, error) {
	t.mu.RLock()
	text := t.m[sql]
	t.mu.RUnlock()
	if text != nil {
		return text, nil
	}
	text, err := t.newText(sql)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil || len(t.m) >= maxStatementTexts {
		t.m = make(map[string]*statementText)
	}
	t.m[sql] = text
	return text, nil
}

func (t *statementTexts) newText(sql string) (*statementText, error) {
	with, params, err := sqllex.AsWith(sql, table.EffectName)
	if err != nil {
		return nil, invalid("Statement", "%s", err)
	}
	if params+table.CombinedParams > sqllex.MaxParams {
		return nil, invalid("Statement", "has %d parameters; at most %d are possible", params, sqllex.MaxParams-table.CombinedParams)
	}
	text := &statementText{params: params, effect: t.table.Effect(with)}
	text.alone, text.among = t.table.Combined(with, params)
	return text, nil
}

// keptArgs returns arguments that outlive what their caller does with its own: a
// slice, slices in it and plain values behind pointers are copied. An argument
// that is a map, a struct or another pointer is not.
func keptArgs(args []any) []any {
	kept := make([]any, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case nil, string, bool, int, int16, int32, int64, float64, time.Time:
			kept[i] = arg
		default:
			kept[i] = keptArg(reflect.ValueOf(arg)).Interface()
		}
	}
	return kept
}

func keptArg(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		kept := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(kept, v)
		if v.Type().Elem().Kind() == reflect.Slice {
			for i := range v.Len() {
				kept.Index(i).Set(keptArg(v.Index(i)))
			}
		}
		return kept
	case reflect.Pointer:
		if v.IsNil() || !isPlain(v.Type().Elem()) {
			return v
		}
		kept := reflect.New(v.Type().Elem())
		kept.Elem().Set(keptArg(v.Elem()))
		if kept.Type() != v.Type() { // a pointer type of its own
			return kept.Convert(v.Type())
		}
		return kept
	default:
		return v
	}
}

// isPlain says whether a copy of a type's value is all there is to it, but for
// slices, which keptArg copies.
func isPlain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Slice, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	default:
		return t == reflect.TypeFor[time.Time]()
	}
}

// boundStatement is a Statement that is ready to be sent.
type boundStatement struct {
	*statementText
	args    []any
	onError func(error) error
}

// explain returns the call's error for an error of the statement. OnError is not asked about
// transient faults, which another attempt may not meet.
func (s *boundStatement) explain(err error) error {
	if s.onError != nil && !wire.IsTransient(err) && !wire.IsConnLost(err) && !wire.IsContextError(err) {
		return cmp.Or(s.onError(err), err)
	}
	return err
}
