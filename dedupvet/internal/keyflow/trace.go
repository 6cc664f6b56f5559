package keyflow

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/defs"
)

// Tracer follows values back to where they come from: through variables,
// operators, conversions, and functions that make text, bytes and hashes of
// their arguments. It stays within a function, but for functions of the package
// that are no more than a value and its return.
type Tracer struct {
	info    *types.Info
	defs    *defs.Defs
	buffers map[*types.Var][]*ast.CallExpr // filled by a call such as rand.Read
}

// Trace is one way that a value came.
type Trace struct {
	// Source is the call or variable where it began, and Name what to call it.
	Source ast.Expr
	Name   string
	// At is Source, or the call of a function of the package that it is in.
	At ast.Expr
	// Via are the assignments that it went through.
	Via []Step
}

// Step is one assignment.
type Step struct {
	Var  *types.Var
	Node ast.Node
}

// NewTracer makes the Tracer of a package.
func NewTracer(pass *analysis.Pass) *Tracer {
	t := &Tracer{
		info:    pass.TypesInfo,
		defs:    pass.ResultOf[defs.Analyzer].(*defs.Defs),
		buffers: make(map[*types.Var][]*ast.CallExpr),
	}
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	in.Preorder([]ast.Node{(*ast.CallExpr)(nil)}, func(n ast.Node) {
		call := n.(*ast.CallExpr)
		if v := t.fills(call); v != nil {
			t.buffers[v] = append(t.buffers[v], call)
		}
	})
	return t
}

// fills returns the buffer that a call fills with random bytes.
func (t *Tracer) fills(call *ast.CallExpr) *types.Var {
	fn := api.Callee(t.info, call)
	var buffer ast.Expr
	switch {
	case fn == nil || fn.Pkg() == nil:
		return nil
	case fn.Name() == "Read" && (fn.Pkg().Path() == "crypto/rand" || fn.Pkg().Path() == "math/rand") && len(call.Args) == 1:
		buffer = call.Args[0]
	case api.IsFunc(fn, "io", "ReadFull") && t.isRandReader(call.Args[0]):
		buffer = call.Args[1]
	default:
		return nil
	}
	if slice, ok := ast.Unparen(buffer).(*ast.SliceExpr); ok {
		buffer = slice.X
	}
	id, ok := ast.Unparen(buffer).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := t.info.ObjectOf(id).(*types.Var)
	return v
}

func (t *Tracer) isRandReader(e ast.Expr) bool {
	sel, ok := ast.Unparen(e).(*ast.SelectorExpr)
	if !ok {
		return false
	}
	obj := t.info.ObjectOf(sel.Sel)
	return obj != nil && obj.Pkg() != nil && obj.Pkg().Path() == "crypto/rand" && obj.Name() == "Reader"
}

// Is tells whether an expression, a call or a variable, is a source.
type Is func(e ast.Expr, fn *types.Func, v *types.Var) bool

// From returns all ways from sources to e.
func (t *Tracer) From(e ast.Expr, is Is) []Trace {
	w := walk{Tracer: t, is: is, seen: make(map[types.Object]bool)}
	w.expr(e, 0)
	return w.found
}
