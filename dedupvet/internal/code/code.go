// Package code provides the functions of a package in SSA form, in which every value is assigned
// once, and follows values and errors through them.
package code

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"iter"
	"reflect"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
)

// Analyzer computes the *Code of a package for other analyzers. The buildssa analyzer of x/tools is
// not used: it has facts, so every imported package would be analyzed too, and it drops the names
// of variables.
var Analyzer = &analysis.Analyzer{
	Name:       "dedupcode",
	Doc:        "build the SSA form for the analyzers of dedupvet",
	ResultType: reflect.TypeFor[*Code](),
	Run:        func(pass *analysis.Pass) (any, error) { return build(pass), nil },
}

// Of returns the code for an analyzer that requires Analyzer.
func Of(pass *analysis.Pass) *Code { return pass.ResultOf[Analyzer].(*Code) }

// Code is the code of one package.
type Code struct {
	// Funcs are its functions, its function literals, and the function that initializes its
	// variables.
	Funcs []*ssa.Function

	callers  map[*ssa.Function][]ssa.CallInstruction
	closures map[*ssa.Function]*ssa.MakeClosure
}

func build(pass *analysis.Pass) *Code {
	prog := ssa.NewProgram(pass.Fset, ssa.GlobalDebug)
	prog.SetNoReturn(func(fn *types.Func) bool {
		return api.IsFunc(fn, "os", "Exit") || api.IsFunc(fn, "log", "Fatal", "Fatalf", "Fatalln")
	})
	for _, imported := range pass.Pkg.Imports() {
		prog.CreatePackage(imported, nil, nil, true)
	}
	pkg := prog.CreatePackage(pass.Pkg, pass.Files, pass.TypesInfo, false)
	pkg.Build()

	c := &Code{
		callers:  make(map[*ssa.Function][]ssa.CallInstruction),
		closures: make(map[*ssa.Function]*ssa.MakeClosure),
	}
	c.add(pkg.Func("init"))
	for _, file := range pass.Files {
		for _, decl := range file.Decls {
			if decl, ok := decl.(*ast.FuncDecl); ok {
				if fn, ok := pass.TypesInfo.Defs[decl.Name].(*types.Func); ok && prog.FuncValue(fn) != nil {
					c.add(prog.FuncValue(fn))
				}
			}
		}
	}
	return c
}

func (c *Code) add(fn *ssa.Function) {
	c.Funcs = append(c.Funcs, fn)
	for in := range Instructions(fn) {
		switch in := in.(type) {
		case ssa.CallInstruction:
			if callee := in.Common().StaticCallee(); callee != nil {
				c.callers[declared(callee)] = append(c.callers[declared(callee)], in)
			}
		case *ssa.MakeClosure:
			c.closures[in.Fn.(*ssa.Function)] = in
		}
	}
	for _, literal := range fn.AnonFuncs {
		c.add(literal)
	}
}

// declared returns the function as it is declared: without type arguments and not bound to a
// receiver.
func declared(fn *ssa.Function) *ssa.Function {
	if origin := fn.Origin(); origin != nil {
		fn = origin
	}
	if method, ok := fn.Object().(*types.Func); ok && fn.Synthetic != "" {
		if fn := fn.Prog.FuncValue(method.Origin()); fn != nil {
			return fn
		}
	}
	return fn
}

// Callers returns the calls of a function in its package.
func (c *Code) Callers(fn *ssa.Function) []ssa.CallInstruction { return c.callers[fn] }

// Instructions returns the instructions of a function, without those of its literals.
func Instructions(fn *ssa.Function) iter.Seq[ssa.Instruction] {
	return func(yield func(ssa.Instruction) bool) {
		for _, b := range fn.Blocks {
			for _, in := range b.Instrs {
				if !yield(in) {
					return
				}
			}
		}
	}
}

// Callee returns the called function or method, also a method of an interface. It returns nil if
// the function is known only at run time.
func Callee(call *ssa.CallCommon) *types.Func {
	if call.IsInvoke() {
		return call.Method.Origin()
	}
	if fn := call.StaticCallee(); fn != nil {
		if obj, ok := fn.Object().(*types.Func); ok {
			return obj.Origin()
		}
	}
	return nil
}

// Receiver returns the x of a method call x.M(…), and nil for other calls.
func Receiver(call *ssa.CallCommon) ssa.Value {
	if call.IsInvoke() {
		return call.Value
	}
	if fn := call.StaticCallee(); fn != nil && fn.Signature.Recv() != nil && len(call.Args) > 0 {
		return call.Args[0]
	}
	return nil
}

// Args returns a call's arguments without the receiver.
func Args(call *ssa.CallCommon) []ssa.Value {
	if !call.IsInvoke() && Receiver(call) != nil {
		return call.Args[1:]
	}
	return call.Args
}

// Uses returns the instructions that use a value.
func Uses(v ssa.Value) []ssa.Instruction {
	if v.Referrers() == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(*v.Referrers()), func(in ssa.Instruction) bool {
		_, isName := in.(*ssa.DebugRef)
		return isName
	})
}

// CallName returns the name of the called function, or of the variable that holds it.
func CallName(call *ssa.CallCommon) string {
	if fn := Callee(call); fn != nil {
		return fn.Name()
	}
	return cmp.Or(Name(call.Value), "a function")
}

// FuncName returns a function's name as other packages spell it.
func FuncName(fn *types.Func) string {
	if recv := fn.Signature().Recv(); recv != nil {
		return api.Short(recv.Type()) + "." + fn.Name()
	}
	return fn.Pkg().Name() + "." + fn.Name()
}

// Name returns the name of a variable that holds a value or its address, or "" if there is none.
func Name(v ssa.Value) string {
	if refs := v.Referrers(); refs != nil {
		for _, ref := range *refs {
			if debug, ok := ref.(*ssa.DebugRef); ok {
				if id, ok := debug.Expr.(*ast.Ident); ok {
					return id.Name
				}
			}
		}
	}
	switch v := v.(type) {
	case *ssa.Parameter, *ssa.FreeVar:
		return v.Name()
	case *ssa.Alloc: // the comment is a variable's name, or a word such as complit
		if !slices.Contains([]string{"complit", "slicelit", "varargs", "new", "makeslice"}, v.Comment) {
			return v.Comment
		}
	case *ssa.UnOp:
		if v.Op == token.MUL {
			return Name(v.X)
		}
	}
	return ""
}
