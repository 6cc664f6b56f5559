package code

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// From returns the values that a value is made from in its function; for a captured variable, in
// the enclosing function. It returns nothing for calls and parameters. For an element or a field it
// returns the whole. It ignores order for captured variables: they have every value that is ever
// assigned.
func (c *Code) From(v ssa.Value) (from []ssa.Value) {
	switch v := v.(type) {
	case *ssa.FreeVar:
		if closure := c.closures[v.Parent()]; closure != nil {
			return []ssa.Value{closure.Bindings[slices.Index(v.Parent().FreeVars, v)]}
		}
	case *ssa.Alloc:
		return c.Stored(v)
	case *ssa.Call, *ssa.Function:
	case *ssa.Lookup:
		return []ssa.Value{v.X}
	case *ssa.IndexAddr:
		return []ssa.Value{v.X}
	case *ssa.Index:
		return []ssa.Value{v.X}
	case ssa.Instruction:
		for _, operand := range v.Operands(nil) {
			if *operand != nil {
				from = append(from, *operand)
			}
		}
	}
	return from
}

// Search reports whether a value, or a value that it is made from, is found. look reports whether a
// value is found, and otherwise returns the values to search next.
func Search(v ssa.Value, look func(v ssa.Value) (found bool, from []ssa.Value)) bool {
	seen := make(map[ssa.Value]bool)
	var search func(v ssa.Value) bool
	search = func(v ssa.Value) bool {
		if v == nil || seen[v] {
			return false
		}
		seen[v] = true
		found, from := look(v)
		return found || slices.ContainsFunc(from, search)
	}
	return search(v)
}

// Given returns the arguments that calls in the package pass for a parameter.
func (c *Code) Given(v *ssa.Parameter) (given []ssa.Value) {
	i := slices.Index(v.Parent().Params, v)
	for _, call := range c.callers[v.Parent()] {
		if args := call.Common().Args; i < len(args) {
			given = append(given, args[i])
		}
	}
	return given
}

// Stored returns the values that are assigned to a variable and to its elements.
func (c *Code) Stored(addr ssa.Value) (stored []ssa.Value) {
	for _, use := range Uses(addr) {
		switch use := use.(type) {
		case *ssa.Store:
			if use.Addr == addr {
				stored = append(stored, use.Val)
			}
		case *ssa.IndexAddr:
			stored = append(stored, c.Stored(use)...)
		case *ssa.MakeClosure:
			if i := slices.Index(use.Bindings, addr); i >= 0 {
				stored = append(stored, c.Stored(use.Fn.(*ssa.Function).FreeVars[i])...)
			}
		}
	}
	return stored
}

// FieldsOf returns the values that are assigned to a variable's fields.
func FieldsOf(v *ssa.Alloc) (given []ssa.Value) {
	for _, use := range Uses(v) {
		if addr, ok := use.(*ssa.FieldAddr); ok {
			for _, use := range Uses(addr) {
				if store, ok := use.(*ssa.Store); ok {
					given = append(given, store.Val)
				}
			}
		}
	}
	return given
}

// UsesOf returns the instructions that use a function, directly or as a closure.
func (c *Code) UsesOf(fn *ssa.Function) []ssa.Instruction {
	if closure := c.closures[fn]; closure != nil {
		return Uses(closure)
	}
	return Uses(fn)
}

// Functions returns the functions of this package that a value may be. It follows variables,
// conversions, functions that return functions, and parameters.
func (c *Code) Functions(v ssa.Value) []*ssa.Function {
	return c.functions(v, make(map[*ssa.Call]bool))
}

func (c *Code) functions(v ssa.Value, calls map[*ssa.Call]bool) (found []*ssa.Function) {
	seen := make(map[ssa.Value]bool)
	var visit func(ssa.Value)
	each := func(values []ssa.Value) {
		for _, v := range values {
			visit(v)
		}
	}
	visit = func(v ssa.Value) {
		if seen[v] {
			return
		}
		seen[v] = true
		switch v := v.(type) {
		case *ssa.Function:
			if fn := declared(v); fn.Blocks != nil && fn.Syntax() != nil {
				found = append(found, fn)
			}
		case *ssa.MakeClosure:
			visit(v.Fn)
		case *ssa.Call:
			if calls[v] {
				return
			}
			calls[v] = true
			for _, maker := range c.functions(v.Call.Value, calls) {
				for in := range Instructions(maker) {
					if ret, ok := in.(*ssa.Return); ok {
						for _, result := range ret.Results {
							if IsFunction(result.Type()) {
								visit(result)
							}
						}
					}
				}
			}
		case *ssa.Parameter:
			each(c.Given(v))
		case *ssa.FieldAddr, *ssa.Field: // a field may hold other functions too
		default:
			each(c.From(v))
		}
	}
	visit(v)
	return found
}

// IsFunction reports whether a type is a function type.
func IsFunction(t types.Type) bool {
	_, ok := t.Underlying().(*types.Signature)
	return ok
}

// FieldOf returns the struct field that an instruction reads or addresses, as Field does.
func FieldOf(in ssa.Instruction) (owner types.Type, field *types.Var, base ssa.Value) {
	switch in := in.(type) {
	case *ssa.FieldAddr:
		return Field(in)
	case *ssa.Field:
		if s, ok := in.X.Type().Underlying().(*types.Struct); ok {
			return in.X.Type(), s.Field(in.Field), in.X
		}
	}
	return nil, nil, nil
}

// Field returns the struct field at an address: the struct's type, the field, and the address of
// the struct.
func Field(addr ssa.Value) (owner types.Type, field *types.Var, base ssa.Value) {
	f, ok := addr.(*ssa.FieldAddr)
	if !ok {
		return nil, nil, nil
	}
	ptr, ok := f.X.Type().Underlying().(*types.Pointer)
	if !ok {
		return nil, nil, nil
	}
	s, ok := ptr.Elem().Underlying().(*types.Struct)
	if !ok {
		return nil, nil, nil
	}
	return ptr.Elem(), s.Field(f.Field), f.X
}
