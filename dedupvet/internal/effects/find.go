package effects

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/defs"
)

type finder struct {
	pass    *analysis.Pass
	info    *types.Info
	defs    *defs.Defs
	regions map[ast.Node]*Region
	found   []*Region
	queue   []*Region           // of which the calls are to be followed
	seen    map[*types.Var]bool // in a resolution at hand
	// readOnly tells that the effects at hand are those of a tool that only reads.
	readOnly bool
}

// findEffects looks at every place where a value gets a type: arguments,
// fields, assignments, declarations and results.
func (f *finder) findEffects() {
	nodes := []ast.Node{
		(*ast.CallExpr)(nil), (*ast.CompositeLit)(nil), (*ast.AssignStmt)(nil),
		(*ast.ValueSpec)(nil), (*ast.ReturnStmt)(nil),
	}
	in := f.pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	in.WithStack(nodes, func(n ast.Node, push bool, stack []ast.Node) bool {
		if !push {
			return true
		}
		switch n := n.(type) {
		case *ast.CallExpr:
			f.findInCall(n)
		case *ast.CompositeLit:
			f.findInLiteral(n)
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if len(n.Rhs) == len(n.Lhs) && f.takesEffect(left) {
					f.addEffects(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i, value := range n.Values {
				if len(n.Names) == len(n.Values) && isEffect(f.info.TypeOf(n.Names[i])) {
					f.addEffects(value)
				}
			}
		case *ast.ReturnStmt:
			f.findInReturn(n, stack)
		}
		return true
	})
}

func (f *finder) findInCall(call *ast.CallExpr) {
	if f.info.Types[call.Fun].IsType() { // a conversion
		if isEffect(f.info.TypeOf(call.Fun)) && len(call.Args) == 1 {
			f.addEffects(call.Args[0])
		}
		return
	}
	fn := api.Callee(f.info, call)
	ours := fn != nil && fn.Pkg() != nil && isDedup(fn.Pkg().Path()) && fn.Pkg() != f.pass.Pkg
	for i, arg := range call.Args {
		if t := api.Param(f.info, call, i); isEffect(t) || ours && takesTx(t) {
			f.addEffects(arg)
		}
	}
}

func (f *finder) findInLiteral(lit *ast.CompositeLit) {
	t := f.info.TypeOf(lit)
	if list, ok := deref(t).Underlying().(interface{ Elem() types.Type }); ok && isEffect(list.Elem()) {
		for _, elt := range lit.Elts {
			if kv, ok := elt.(*ast.KeyValueExpr); ok {
				elt = kv.Value
			}
			f.addEffects(elt)
		}
	}
	s, ok := deref(t).Underlying().(*types.Struct)
	if !ok {
		return
	}
	f.readOnly = f.isReadOnly(lit)
	defer func() { f.readOnly = false }()
	for i, elt := range lit.Elts {
		if kv, ok := elt.(*ast.KeyValueExpr); ok {
			if name, ok := kv.Key.(*ast.Ident); ok && f.fieldTakesEffect(t, f.info.ObjectOf(name)) {
				f.addEffects(kv.Value)
			}
		} else if i < s.NumFields() && f.fieldTakesEffect(t, s.Field(i)) {
			f.addEffects(elt)
		}
	}
}

// isReadOnly tells whether a literal is a tool that says that it changes nothing.
func (f *finder) isReadOnly(lit *ast.CompositeLit) bool {
	if !api.IsNamed(f.info.TypeOf(lit), api.Tool, "Tool") {
		return false
	}
	for _, elt := range lit.Elts {
		kv, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		if name, ok := kv.Key.(*ast.Ident); !ok || name.Name != "Class" {
			continue
		}
		sel, ok := ast.Unparen(kv.Value).(*ast.SelectorExpr)
		if !ok {
			return false
		}
		class := f.info.ObjectOf(sel.Sel)
		return class != nil && class.Pkg() != nil && class.Pkg().Path() == api.Tool && class.Name() == "ReadOnly"
	}
	return false
}

func (f *finder) findInReturn(ret *ast.ReturnStmt, stack []ast.Node) {
	var sig *types.Signature
	for i := len(stack) - 1; i >= 0 && sig == nil; i-- {
		switch fn := stack[i].(type) {
		case *ast.FuncLit:
			sig, _ = f.info.TypeOf(fn).(*types.Signature)
		case *ast.FuncDecl:
			sig, _ = f.info.TypeOf(fn.Name).(*types.Signature)
		}
	}
	if sig == nil || sig.Results().Len() != len(ret.Results) {
		return
	}
	for i, result := range ret.Results {
		if isEffect(sig.Results().At(i).Type()) {
			f.addEffects(result)
		}
	}
}

func (f *finder) takesEffect(left ast.Expr) bool {
	if sel, ok := left.(*ast.SelectorExpr); ok && f.info.Selections[sel] != nil {
		return f.fieldTakesEffect(f.info.TypeOf(sel.X), f.info.ObjectOf(sel.Sel))
	}
	return isEffect(f.info.TypeOf(left))
}

// fieldTakesEffect tells whether a field takes an effect: by its type, or
// because dedup calls what it holds with a transaction, as it does with the Run
// of a tool and the Archive of a sweep.
func (f *finder) fieldTakesEffect(owner types.Type, field types.Object) bool {
	if field == nil {
		return false
	}
	if isEffect(field.Type()) {
		return true
	}
	named, ok := deref(owner).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg() != f.pass.Pkg &&
		isDedup(named.Obj().Pkg().Path()) && takesTx(field.Type())
}

// addEffects makes regions of the functions that e may stand for.
func (f *finder) addEffects(e ast.Expr) {
	for _, fn := range f.resolve(e) {
		f.add(fn, true, f.readOnly)
	}
}

// findHelpers follows the calls from effects to functions of this package, and
// from these on.
func (f *finder) findHelpers() {
	for len(f.queue) > 0 {
		r := f.queue[0]
		f.queue = f.queue[1:]
		r.Walk(func(n ast.Node, _ []ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return
			}
			for _, fn := range f.resolve(call.Fun) {
				if fn.Pos() < r.Node.Pos() || fn.Pos() >= r.Node.End() {
					f.add(fn, false, r.ReadOnly)
				}
			}
		})
	}
}

func (f *finder) add(fn ast.Node, effect, readOnly bool) {
	if r := f.regions[fn]; r != nil {
		if r.ReadOnly && !readOnly { // and so is what it calls
			r.ReadOnly = false
			f.queue = append(f.queue, r)
		}
		return
	}
	r := &Region{Node: fn, Effect: effect, ReadOnly: readOnly, info: f.info, defs: f.defs, effects: f.regions}
	switch fn := fn.(type) {
	case *ast.FuncLit:
		r.Type, r.Body = fn.Type, fn.Body
	case *ast.FuncDecl:
		r.Type, r.Body, r.Name = fn.Type, fn.Body, fn.Name.Name
		if recv := f.variables(fn.Recv); len(recv) == 1 {
			r.recv = recv[0]
		}
	}
	if r.Body == nil {
		return
	}
	r.params, r.results = f.variables(r.Type.Params), f.variables(r.Type.Results)
	f.regions[fn] = r
	f.found = append(f.found, r)
	f.queue = append(f.queue, r)
}

// variables returns those of a list that have names.
func (f *finder) variables(list *ast.FieldList) []*types.Var {
	var vars []*types.Var
	if list != nil {
		for _, field := range list.List {
			for _, name := range field.Names {
				if v, ok := f.info.Defs[name].(*types.Var); ok {
					vars = append(vars, v)
				}
			}
		}
	}
	return vars
}

// isEffect tells whether t is dedup.Effect.
func isEffect(t types.Type) bool { return t != nil && api.IsNamed(t, api.Dedup, "Effect") }

func isDedup(path string) bool { return path == api.Dedup || path == api.Tool }

// takesTx tells whether t is a function with a transaction among its parameters.
func takesTx(t types.Type) bool {
	if t == nil {
		return false
	}
	sig, ok := t.Underlying().(*types.Signature)
	if !ok {
		return false
	}
	for v := range sig.Params().Variables() {
		if api.IsTx(v.Type()) {
			return true
		}
	}
	return false
}

func deref(t types.Type) types.Type {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		return types.Unalias(p.Elem())
	}
	return t
}
