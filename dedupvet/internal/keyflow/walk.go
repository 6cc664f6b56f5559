package keyflow

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

type walk struct {
	*Tracer
	is    Is
	seen  map[types.Object]bool
	via   []Step
	at    ast.Expr // the call that led into a wrapper
	found []Trace
}

// expr looks at an expression of which the value, or the index-th one of
// several, matters.
func (w *walk) expr(e ast.Expr, index int) {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		w.ident(e)
	case *ast.CallExpr:
		w.call(e, index)
	case *ast.BinaryExpr:
		w.expr(e.X, 0)
		w.expr(e.Y, 0)
	case *ast.CompositeLit:
		if _, isStruct := w.info.TypeOf(e).Underlying().(*types.Struct); isStruct {
			return
		}
		for _, elt := range e.Elts {
			if kv, ok := elt.(*ast.KeyValueExpr); ok {
				elt = kv.Value
			}
			w.expr(elt, 0)
		}
	case *ast.UnaryExpr:
		w.expr(e.X, 0)
	case *ast.StarExpr:
		w.expr(e.X, 0)
	case *ast.SliceExpr:
		w.expr(e.X, 0)
	case *ast.IndexExpr:
		w.expr(e.X, 0)
	}
}

func (w *walk) ident(id *ast.Ident) {
	v, ok := w.info.ObjectOf(id).(*types.Var)
	if !ok {
		return
	}
	if w.is(id, nil, v) {
		w.add(id, id.Name)
		return
	}
	if w.seen[v] || v.Parent() != nil && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() {
		return // a variable of the package has a life of its own
	}
	w.seen[v] = true
	for _, def := range w.defs.Of(v) {
		w.through(v, def.Node, func() { w.expr(def.Value, def.Index) })
	}
	for _, fill := range w.buffers[v] {
		if w.is(fill, api.Callee(w.info, fill), nil) {
			w.through(v, fill, func() { w.add(fill, "rand.Read") })
		}
	}
}

func (w *walk) through(v *types.Var, n ast.Node, then func()) {
	w.via = append(w.via, Step{v, n})
	then()
	w.via = w.via[:len(w.via)-1]
}

func (w *walk) call(call *ast.CallExpr, index int) {
	if w.info.Types[call.Fun].IsType() { // a conversion
		w.args(call)
		return
	}
	fn := api.Callee(w.info, call)
	switch {
	case fn == nil:
		if w.info.Types[call.Fun].IsBuiltin() {
			w.builtin(call)
		}
	case api.IsFunc(fn, "io", "ReadFull"): // returns a length
	case w.is(call, fn, nil):
		w.add(call, name(fn))
	case w.defs.Func(fn) != nil:
		w.wrapper(call, fn, index)
	case passesOn(fn):
		if x := api.Receiver(w.info, call); x != nil {
			w.expr(x, 0)
		}
		w.args(call)
	}
}

func (w *walk) builtin(call *ast.CallExpr) {
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	if !ok {
		return
	}
	switch id.Name {
	case "append", "min", "max":
		w.args(call)
	}
}

func (w *walk) args(call *ast.CallExpr) {
	for _, arg := range call.Args {
		w.expr(arg, 0)
	}
}

// wrapper looks into a function of this package that only returns something. One
// that does more may save what it makes, as it should.
func (w *walk) wrapper(call *ast.CallExpr, fn *types.Func, index int) {
	ret := onlyReturn(w.defs.Func(fn).Body, index)
	if w.seen[fn] || ret == nil {
		return
	}
	w.seen[fn] = true
	if w.at == nil { // the outermost one
		w.at = call
		defer func() { w.at = nil }()
	}
	switch {
	case index < len(ret.Results):
		w.expr(ret.Results[index], 0)
	case len(ret.Results) == 1:
		w.expr(ret.Results[0], index)
	}
}

// onlyReturn is the return of a body that has nothing else, or only the variables
// to return before it: `id := dedup.NewKey(); return id, nil`.
func onlyReturn(body *ast.BlockStmt, index int) *ast.ReturnStmt {
	if body == nil || len(body.List) == 0 || len(body.List) > 2 {
		return nil
	}
	ret, ok := body.List[len(body.List)-1].(*ast.ReturnStmt)
	if !ok || len(body.List) == 1 {
		return ret
	}
	switch first := body.List[0].(type) {
	case *ast.DeclStmt:
	case *ast.AssignStmt:
		if first.Tok != token.DEFINE {
			return nil
		}
	default:
		return nil
	}
	for i, result := range ret.Results {
		if i != index && calls(result) { // which may save it
			return nil
		}
	}
	return ret
}

func calls(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		_, isCall := n.(*ast.CallExpr)
		found = found || isCall
		return !found
	})
	return found
}

func (w *walk) add(source ast.Expr, name string) {
	at := w.at
	if at == nil {
		at = source
	}
	w.found = append(w.found, Trace{Source: source, Name: name, At: at, Via: slices.Clone(w.via)})
}

// passesOn tells whether what fn returns is made of its arguments, and no more.
func passesOn(fn *types.Func) bool {
	if fn.Pkg() == nil {
		return false
	}
	path := versionless(fn.Pkg().Path())
	switch root, _, _ := strings.Cut(path, "/"); root {
	case "fmt", "strconv", "strings", "bytes", "slices", "time", "encoding", "crypto", "hash":
		return true
	}
	return path == "math/big" || path == "net/url" || path == "path" || ids[path] != nil
}

func name(fn *types.Func) string {
	if recv := fn.Signature().Recv(); recv != nil {
		return api.Short(recv.Type()) + "." + fn.Name()
	}
	return fn.Pkg().Name() + "." + fn.Name()
}
