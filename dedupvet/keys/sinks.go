package keys

import (
	"go/constant"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// sink is a value that a key is or is made of.
type sink struct {
	value ssa.Value
	// what it is in words, such as "Call.Key" or "a part of KeyFromIntent".
	what string
	// at is the assignment or call that it is given to.
	at ssa.Instruction
}

// header is what the header that carries a key to an HTTP server is called.
const header = "Idempotency-Key"

// ofArgs is what a call's arguments are called. They are no key, but are to be the same as well.
const ofArgs = "Call.Args"

// sinks returns those of a package: first where keys are used, and then what the
// package's own functions are given for them.
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
	for i := 0; i < len(found); i++ { // which grows
		given := found[i]
		if given.what == ofArgs { // who calls may draw them once
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

// fieldOfKey is what a field is called that a key goes into, by its address.
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

// parts are a value, and what a literal of a struct or map is made of.
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

// arguments are those of a call that keys are made of, or that make a header.
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
	case api.IsMethod(fn, "net/http", "Header", "Set", "Add"):
		name, ok := args[0].(*ssa.Const)
		if ok && strings.EqualFold(constant.StringVal(name.Value), header) {
			what, from = header, 1
		}
	}
	for i := from; what != "" && i < to; i++ {
		found = append(found, sink{value: args[i], what: what, at: in})
	}
	return found
}
