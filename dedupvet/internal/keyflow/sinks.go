// Package keyflow finds where the keys of calls come from.
package keyflow

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/defs"
)

// Sink is a value that a key is or is made of.
type Sink struct {
	Value ast.Expr
	// What it is in words, such as "Call.Key" or "a part of KeyFromIntent".
	What string
	// Stack are the nodes around Value, the outermost first.
	Stack []ast.Node
}

// Sinks returns those of a package: first where keys are used, and then what the
// package's own functions are given for them.
func Sinks(pass *analysis.Pass, tracer *Tracer) []Sink {
	s := sinks{pass: pass, info: pass.TypesInfo, stacks: make(map[*ast.CallExpr][]ast.Node)}
	nodes := []ast.Node{(*ast.CompositeLit)(nil), (*ast.AssignStmt)(nil), (*ast.CallExpr)(nil)}
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	in.WithStack(nodes, func(n ast.Node, push bool, stack []ast.Node) bool {
		if push {
			s.stack = stack
			s.find(n)
		}
		return true
	})
	s.findArguments(tracer)
	return s.found
}

type sinks struct {
	pass   *analysis.Pass
	info   *types.Info
	stack  []ast.Node
	stacks map[*ast.CallExpr][]ast.Node // of calls within the package
	found  []Sink
}

func (s *sinks) find(n ast.Node) {
	switch n := n.(type) {
	case *ast.CompositeLit:
		t := s.info.TypeOf(n)
		for i, elt := range n.Elts {
			if kv, ok := elt.(*ast.KeyValueExpr); ok {
				if name, ok := kv.Key.(*ast.Ident); ok {
					s.field(t, name.Name, kv.Value)
				}
			} else if str, ok := t.Underlying().(*types.Struct); ok && i < str.NumFields() {
				s.field(t, str.Field(i).Name(), elt)
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if sel, ok := left.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) {
				s.field(s.info.TypeOf(sel.X), sel.Sel.Name, n.Rhs[i])
			}
		}
	case *ast.CallExpr:
		fn := api.Callee(s.info, n)
		switch {
		case fn != nil && fn.Pkg() == s.pass.Pkg:
			s.stacks[n] = slices.Clone(s.stack)
		case api.IsFunc(fn, api.Dedup, "KeyFromIntent", "KeyFromToolCall", "TimedKey"):
			for _, arg := range n.Args {
				s.add(arg, "a part of "+fn.Name())
			}
		case api.IsFunc(fn, api.Dedup, "KeyFromArgsMergingRepeats") && len(n.Args) > 0:
			s.add(n.Args[0], "the session of "+fn.Name())
		}
	}
}

// findArguments goes from parameters that become keys to the arguments that they
// are given in this package, and from these on.
func (s *sinks) findArguments(tracer *Tracer) {
	isParam := func(_ ast.Expr, _ *types.Func, v *types.Var) bool {
		_, ok := tracer.defs.Param(v)
		return ok
	}
	known := make(map[defs.Param]bool)
	for i := 0; i < len(s.found); i++ { // which grows
		sink := s.found[i]
		for _, trace := range tracer.From(sink.Value, isParam) {
			v, _ := s.info.ObjectOf(trace.Source.(*ast.Ident)).(*types.Var)
			param, _ := tracer.defs.Param(v)
			if known[param] {
				continue
			}
			known[param] = true
			for _, call := range tracer.defs.Calls(param.Func) {
				if param.Index < len(call.Args) {
					s.stack = s.stacks[call]
					s.add(call.Args[param.Index], sink.What)
				}
			}
		}
	}
}

func (s *sinks) field(t types.Type, name string, value ast.Expr) {
	switch {
	case api.IsNamed(t, api.Dedup, "Call") && name == "Key":
		s.add(value, "Call.Key")
	case api.IsNamed(t, api.Tool, "Invocation") && (name == "Key" || name == "Session" || name == "CallID"):
		s.add(value, "Invocation."+name)
	}
}

func (s *sinks) add(value ast.Expr, what string) {
	s.found = append(s.found, Sink{Value: value, What: what, Stack: slices.Clone(s.stack)})
}
