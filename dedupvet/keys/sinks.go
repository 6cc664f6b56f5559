package keys

import (
	"go/constant"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// sink is a value that becomes a key or a part of one.
type sink struct {
	value ssa.Value
	// what describes the sink in a message, such as "Call.Key" or "a part of KeyFromIntent".
	what string
	// at is the assignment or the call that the value goes to.
	at ssa.Instruction
}

// header is the HTTP header that carries a key. The metadata of gRPC has the same name.
const header = "Idempotency-Key"

// ofArgs describes a call's arguments. They are not a key, but must be the same on every try too.
const ofArgs = "Call.Args"

// sinks returns the sinks of a package: first the uses of keys, then the arguments that the
// package's own functions get for them.
func (t *tracer) sinks() []sink {
	var found []sink
	for _, fn := range t.code.Funcs {
		for in := range code.Instructions(fn) {
			switch in := in.(type) {
			case *ssa.Store:
				values, what := []ssa.Value{in.Val}, fieldOfKey(in.Addr)
				if what == ofArgs {
					values = parts(in.Val)
				}
				for i := range values {
					if what != "" {
						found = append(found, sink{value: values[i], what: what, at: in})
					}
				}
			case ssa.CallInstruction:
				found = append(found, t.arguments(in)...)
			}
		}
	}
	known := make(map[*ssa.Parameter]bool)
	for i := 0; i < len(found); i++ { // found grows in the loop
		given := found[i]
		if given.what == ofArgs { // the caller may draw them once
			continue
		}
		_, params := t.from(given.value, func(ssa.Value) bool { return false })
		for _, param := range params {
			if known[param] {
				continue
			}
			known[param] = true
			i := slices.Index(param.Parent().Params, param)
			for _, call := range t.code.Callers(param.Parent()) {
				args := call.Common().Args
				if i < len(args) {
					found = append(found, sink{value: args[i], what: given.what, at: call})
				}
			}
		}
	}
	return found
}

// fieldOfKey returns the description of a field that holds a key, given its address.
func fieldOfKey(addr ssa.Value) string {
	owner, field, _ := code.Field(addr)
	switch {
	case field == nil:
	case api.IsNamed(owner, api.Dedup, "Call") && field.Name() == "Key":
		return "Call.Key"
	case api.IsNamed(owner, api.Dedup, "Call") && field.Name() == "Args":
		return ofArgs
	case api.IsNamed(owner, api.Tool, "Invocation") && slices.Contains([]string{"Key", "Session", "CallID"}, field.Name()):
		return "Invocation." + field.Name()
	}
	return ""
}

// parts returns a value and, for a literal of a struct or map, its members.
func parts(v ssa.Value) []ssa.Value {
	all := []ssa.Value{v}
	if boxed, ok := v.(*ssa.MakeInterface); ok {
		v = boxed.X
	}
	if load, ok := v.(*ssa.UnOp); ok {
		v = load.X
	}
	for _, use := range code.Uses(v) {
		if update, ok := use.(*ssa.MapUpdate); ok {
			all = append(all, update.Value)
		}
	}
	if variable, ok := v.(*ssa.Alloc); ok {
		all = append(all, code.FieldsOf(variable)...)
	}
	return all
}

// arguments returns the arguments of a call that become a part of a key or of the header.
func (t *tracer) arguments(in ssa.CallInstruction) (found []sink) {
	call := in.Common()
	fn, args := code.Callee(call), code.Args(call)
	what, from, to := "", 0, len(args)
	switch {
	case api.IsFunc(fn, api.Dedup, "KeyFromIntent", "KeyFromToolCall", "KeyFromToolCallArgs", "TimedKey"):
		what = "a part of " + fn.Name()
	case api.IsFunc(fn, api.Dedup, "KeyFromArgsMergingRepeats"):
		what, to = "the session of "+fn.Name(), 1
		for _, value := range parts(args[1]) {
			found = append(found, sink{value: value, what: "the arguments of " + fn.Name(), at: in})
		}
	case api.IsMethod(fn, "net/http", "Header", "Set", "Add"), api.IsMethod(fn, api.Metadata, "MD", "Set", "Append"):
		if isHeader(args[0]) {
			what, from = header, 1
		}
	case api.IsFunc(fn, api.Runner, "WithKey"):
		what, from = header, 1
	case api.IsFunc(fn, api.Metadata, "AppendToOutgoingContext", "Pairs"):
		for _, value := range afterHeader(args[len(args)-1]) {
			found = append(found, sink{value: value, what: header, at: in})
		}
	}
	for i := from; what != "" && i < to; i++ {
		found = append(found, sink{value: args[i], what: what, at: in})
	}
	return found
}

// isHeader reports whether a value is the name of the header.
func isHeader(v ssa.Value) bool {
	name, ok := v.(*ssa.Const)
	return ok && name.Value != nil && strings.EqualFold(constant.StringVal(name.Value), header)
}

// afterHeader returns the values that follow the name of the header in variadic arguments.
func afterHeader(pairs ssa.Value) (values []ssa.Value) {
	list, ok := pairs.(*ssa.Slice)
	if !ok {
		return nil
	}
	elements := make(map[int64]ssa.Value)
	for _, use := range code.Uses(list.X) {
		element, ok := use.(*ssa.IndexAddr)
		if !ok {
			continue
		}
		for _, use := range code.Uses(element) {
			store, isStore := use.(*ssa.Store)
			if i, ok := element.Index.(*ssa.Const); ok && isStore {
				elements[i.Int64()] = store.Val
			}
		}
	}
	for i := int64(0); i+1 < int64(len(elements)); i += 2 {
		if value := elements[i+1]; value != nil && isHeader(elements[i]) {
			values = append(values, value)
		}
	}
	return values
}
