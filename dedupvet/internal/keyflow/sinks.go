// Package keyflow finds where the keys of calls come from.
package keyflow

import (
	"go/constant"
	"go/token"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// Sink is a value that a key is or is made of.
type Sink struct {
	Value ssa.Value
	// What it is in words, such as "Call.Key" or "a part of KeyFromIntent".
	What string
	// At is the assignment or call that it is given to.
	At  ssa.Instruction
	Pos token.Pos
}

// Header is what the header that carries a key to an HTTP server is called.
const Header = "Idempotency-Key"

// Args is what a call's arguments are called. They are no key, but are to be the same as well.
const Args = "Call.Args"

// Sinks returns those of a package: first where keys are used, and then what the
// package's own functions are given for them.
func (t *Tracer) Sinks() []Sink {
	var found []Sink
	for _, fn := range t.code.Funcs {
		for in := range code.Instructions(fn) {
			switch in := in.(type) {
			case *ssa.Store:
				switch what := fieldOfKey(in.Addr); what {
				case "":
				case Args:
					for _, value := range parts(in.Val) {
						found = append(found, Sink{Value: value, What: what, At: in, Pos: t.code.Pos(in)})
					}
				default:
					found = append(found, Sink{Value: in.Val, What: what, At: in, Pos: t.code.Pos(in)})
				}
			case ssa.CallInstruction:
				found = append(found, t.arguments(in)...)
			}
		}
	}
	known := make(map[*ssa.Parameter]bool)
	for i := 0; i < len(found); i++ { // which grows
		sink := found[i]
		if sink.What == Args { // who calls may draw them once
			continue
		}
		_, params := t.From(sink.Value, func(ssa.Value) bool { return false })
		for _, param := range params {
			if known[param] {
				continue
			}
			known[param] = true
			i := slices.Index(param.Parent().Params, param)
			for _, call := range t.code.Callers(param.Parent()) {
				args := call.Common().Args
				if j := i - len(args) + len(code.Args(call.Common())); j >= 0 && i < len(args) {
					found = append(found, Sink{Value: args[i], What: sink.What, At: call, Pos: t.code.Pos(call, j)})
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
		return Args
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
		switch use := use.(type) {
		case *ssa.MapUpdate:
			all = append(all, use.Value)
		case *ssa.FieldAddr:
			if _, isVariable := v.(*ssa.Alloc); !isVariable {
				continue
			}
			for _, use := range code.Uses(use) {
				if store, ok := use.(*ssa.Store); ok {
					all = append(all, store.Val)
				}
			}
		}
	}
	return all
}

// arguments are those of a call that keys are made of, or that make a header.
func (t *Tracer) arguments(in ssa.CallInstruction) (found []Sink) {
	call := in.Common()
	fn, args := code.Callee(call), code.Args(call)
	what, from, to := "", 0, len(args)
	switch {
	case api.IsFunc(fn, api.Dedup, "KeyFromIntent", "KeyFromToolCall", "KeyFromToolCallArgs", "TimedKey"):
		what = "a part of " + fn.Name()
	case api.IsFunc(fn, api.Dedup, "KeyFromArgsMergingRepeats"):
		what, to = "the session of "+fn.Name(), 1
		for _, value := range parts(args[1]) {
			found = append(found, Sink{Value: value, What: "the arguments of " + fn.Name(), At: in, Pos: t.code.Pos(in, 1)})
		}
	case api.IsMethod(fn, "net/http", "Header", "Set", "Add"):
		name, ok := args[0].(*ssa.Const)
		if ok && strings.EqualFold(constant.StringVal(name.Value), Header) {
			what, from = Header, 1
		}
	}
	for i := from; what != "" && i < to; i++ {
		found = append(found, Sink{Value: args[i], What: what, At: in, Pos: t.code.Pos(in, i)})
	}
	return found
}
