package droppederror

import (
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// checkKept looks at what becomes of an error that a variable holds. A return of nil
// that only a failure leads to makes a success of it. One that a success leads to as
// well passes the error over, unless somebody else got it.
func (c *checker) checkKept(in ssa.CallInstruction, err ssa.Value) {
	ifFailed, ifSucceeded := c.successes(in, err, false), c.successes(in, err, true)
	passed := false
	for at := range code.Instructions(in.Parent()) {
		ret, ok := at.(*ssa.Return)
		switch {
		case !ok || !ifFailed[ret]:
		case ifSucceeded[ret]:
			passed = true
		default:
			c.report(in, ret.Pos(), "becomes a success")
		}
	}
	if passed && onlyAsked(err, make(map[ssa.Value]bool)) {
		c.report(in, c.whereAsked(in, err), "is passed over")
	}
}

// successes are the returns with nil for an error that a call leads to, whose own
// error is nil or is not.
func (c *checker) successes(in ssa.CallInstruction, err ssa.Value, isNil bool) map[*ssa.Return]bool {
	found := make(map[*ssa.Return]bool)
	code.Follow{
		False: findsAnswer,
		Visit: func(at ssa.Instruction, known code.Facts) bool {
			if ret, ok := at.(*ssa.Return); ok && len(ret.Results) > 0 {
				result := ret.Results[len(ret.Results)-1]
				if isNil, ok := known.Of(result); ok && isNil && api.IsError(result.Type()) {
					found[ret] = true
				}
			}
			return at != in
		},
	}.From(in, code.Facts{err: isNil})
	return found
}

// findsAnswer reports whether a condition finds an error that no failed statement
// has: that there was no row, or one that the program made of what it read.
func findsAnswer(cond ssa.Value, known code.Facts) bool {
	switch cond := cond.(type) {
	case *ssa.BinOp:
		_, ok := known.Of(cond.X)
		return ok && cond.Op == token.EQL && !code.IsNil(cond.Y) && api.IsError(cond.X.Type()) && !isFailure(cond.Y)
	case *ssa.Call:
		if _, ok := known.Of(code.Asked(cond)); !ok {
			return false
		}
		switch fn := code.Callee(&cond.Call); {
		case api.IsFunc(fn, "errors", "Is"):
			return !isFailure(cond.Call.Args[1])
		case api.IsFunc(fn, "errors", "As"):
			target, ok := cond.Call.Args[1].(*ssa.MakeInterface)
			return !ok || !isFailureType(target.X.Type())
		}
	}
	return false
}

// isFailure reports whether an error to compare with is one of pgx, or of a context
// that is done, and so comes of a statement that failed.
func isFailure(v ssa.Value) bool {
	load, ok := v.(*ssa.UnOp)
	if !ok {
		return false
	}
	global, ok := load.X.(*ssa.Global)
	if !ok {
		return false
	}
	pkg := global.Pkg.Pkg
	return pkg.Path() == "context" || api.InPGX(pkg) && global.Name() != "ErrNoRows" && global.Name() != "ErrTooManyRows"
}

// isFailureType reports whether errors.As with a target looks for an error of pgx,
// or for an SQLSTATE.
func isFailureType(target types.Type) bool {
	ptr, ok := target.Underlying().(*types.Pointer)
	if !ok {
		return false
	}
	t := types.Unalias(ptr.Elem())
	if method, _, _ := types.LookupFieldOrMethod(t, true, nil, "SQLState"); method != nil {
		return true
	}
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	return ok && api.InPGX(named.Obj().Pkg())
}

// logs matches the names of functions that write a line.
var logs = regexp.MustCompile(`^(Print|Fprint|Error|Warn|Info|Debug|Log)(f|ln|Context|Attrs)?$`)

// onlyAsked reports whether all that is done with an error is to look whether there
// is one, and to write it to a log.
func onlyAsked(v ssa.Value, seen map[ssa.Value]bool) bool {
	if seen[v] {
		return true
	}
	seen[v] = true
	for _, use := range code.Uses(v) {
		ok := false
		switch use := use.(type) {
		case *ssa.BinOp:
			ok = true
		case *ssa.Store: // an argument of several
			if element, isElement := use.Addr.(*ssa.IndexAddr); isElement {
				ok = onlyAsked(element.X, seen)
			}
		case *ssa.IndexAddr:
			ok = true
		case *ssa.ChangeInterface, *ssa.Slice, *ssa.Phi:
			ok = onlyAsked(use.(ssa.Value), seen)
		case *ssa.Call:
			fn := code.Callee(&use.Call)
			switch {
			case fn == nil:
			case code.Asked(use) != nil:
				ok = true
			case fn.Name() == "Error" && use.Call.IsInvoke() && use.Call.Value == v: // its text
				ok = onlyAsked(use, seen)
			default:
				ok = logs.MatchString(fn.Name()) && (fn.Pkg() == nil || fn.Pkg().Path() != "testing")
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// whereAsked is where an error is first looked at, or else the call.
func (c *checker) whereAsked(in ssa.CallInstruction, err ssa.Value) token.Pos {
	for _, use := range code.Uses(err) {
		if cond, ok := use.(*ssa.BinOp); ok {
			return cond.Pos()
		}
	}
	return c.code.Pos(in)
}
