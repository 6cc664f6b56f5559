package keys

import (
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// tracer follows values back to their origin: through variables, operators, conversions, and
// functions that make text, bytes or hashes from their arguments. It stays within a function,
// except for functions of the package that only return a value.
type tracer struct{ code *code.Code }

// trace is one path from a source to a value.
type trace struct {
	// source is the call or variable where the path starts, and name its name for a message.
	source ssa.Value
	name   string
	// at is source, or the call of the package's function that contains it.
	at ssa.Instruction
	// choices are the variables on the path that have different values on different branches.
	choices []ssa.Value
}

// from returns all paths from sources to a value, and the parameters that the value is made from.
func (t *tracer) from(v ssa.Value, isSource func(ssa.Value) bool) ([]trace, []*ssa.Parameter) {
	w := walk{code: t.code, isSource: isSource, seen: make(map[ssa.Value]bool)}
	w.value(v)
	return w.found, w.params
}

type walk struct {
	code     *code.Code
	isSource func(ssa.Value) bool
	seen     map[ssa.Value]bool
	at       *ssa.Call // the outermost call of a wrapper
	choices  []ssa.Value
	found    []trace
	params   []*ssa.Parameter
}

func (w *walk) value(v ssa.Value) {
	if w.seen[v] {
		return
	}
	w.seen[v] = true
	if w.isSource(v) {
		w.add(v)
		return
	}
	switch v := v.(type) {
	case *ssa.Parameter:
		w.params = append(w.params, v)
	case *ssa.Call:
		w.call(v, 0)
	case *ssa.Extract:
		if call, ok := v.Tuple.(*ssa.Call); ok && !w.isSource(call) {
			w.call(call, v.Index)
		} else {
			w.value(v.Tuple)
		}
	case *ssa.FieldAddr, *ssa.Field, *ssa.Global: // a package variable may be set anywhere
	default:
		from := w.code.From(v)
		if isChoice(v) && len(from) > 1 {
			w.choices = append(w.choices, v)
			defer func() { w.choices = w.choices[:len(w.choices)-1] }()
		}
		w.values(from)
		w.fills(v)
	}
}

// isChoice reports whether a value is a variable with one current value. An array is not, because
// all its elements count.
func isChoice(v ssa.Value) bool {
	if variable, ok := v.(*ssa.Alloc); ok {
		_, isArray := variable.Type().Underlying().(*types.Pointer).Elem().Underlying().(*types.Array)
		return !isArray
	}
	_, isPhi := v.(*ssa.Phi)
	return isPhi
}

// fills finds the calls that fill a buffer with random bytes.
func (w *walk) fills(buffer ssa.Value) {
	for _, use := range code.Uses(buffer) {
		switch use := use.(type) {
		case *ssa.Slice:
			w.fills(use)
		case *ssa.Call:
			fn := code.Callee(&use.Call)
			if w.isSource(use) && (api.IsFunc(fn, "crypto/rand", "Read") || api.IsFunc(fn, "io", "ReadFull")) {
				w.add(use)
			}
		}
	}
}

func isRandReader(v ssa.Value) bool {
	load, ok := v.(*ssa.UnOp)
	if !ok {
		return false
	}
	global, ok := load.X.(*ssa.Global)
	return ok && global.Pkg.Pkg.Path() == "crypto/rand" && global.Name() == "Reader"
}

func (w *walk) call(call *ssa.Call, index int) {
	fn := code.Callee(&call.Call)
	switch callee := call.Call.StaticCallee(); {
	case fn == nil:
		if builtin, ok := call.Call.Value.(*ssa.Builtin); ok && slices.Contains([]string{"append", "min", "max"}, builtin.Name()) {
			w.values(call.Call.Args)
		}
	case callee != nil && len(w.code.Functions(callee)) > 0:
		w.wrapper(call, w.code.Functions(callee)[0], index)
	case passesOn(fn):
		if x := code.Receiver(&call.Call); x != nil {
			w.value(x)
		}
		w.values(code.Args(&call.Call))
	}
}

func (w *walk) values(values []ssa.Value) {
	for _, v := range values {
		w.value(v)
	}
}

// wrapper looks into a function of this package that only returns something. A function that does
// more may save its result, as it should.
func (w *walk) wrapper(call *ssa.Call, fn *ssa.Function, index int) {
	if len(fn.Blocks) != 1 || w.seen[fn] {
		return
	}
	w.seen[fn] = true
	if w.at == nil { // the outermost one
		w.at = call
		defer func() { w.at = nil }()
	}
	before := len(w.found)
	for in := range code.Instructions(fn) {
		if ret, ok := in.(*ssa.Return); ok && index < len(ret.Results) {
			w.value(ret.Results[index])
		}
	}
	for in := range code.Instructions(fn) {
		if call, ok := in.(ssa.CallInstruction); ok && (call.Value() == nil || !w.seen[call.Value()]) {
			w.found = w.found[:before] // this call may save the result
		}
		switch in := in.(type) {
		case *ssa.MapUpdate, *ssa.Send:
			w.found = w.found[:before]
		case *ssa.Store:
			_, isElement := in.Addr.(*ssa.IndexAddr)
			if _, isAlloc := in.Addr.(*ssa.Alloc); !isElement && !isAlloc {
				w.found = w.found[:before]
			}
		}
	}
}

func (w *walk) add(source ssa.Value) {
	found := trace{source: source, name: code.Name(source), choices: slices.Clone(w.choices)}
	if call, ok := source.(*ssa.Call); ok {
		found.name = code.FuncName(code.Callee(&call.Call))
		if fn := code.Callee(&call.Call); api.IsFunc(fn, "io", "ReadFull") {
			found.name = "rand.Read"
		}
	}
	found.at, _ = source.(ssa.Instruction)
	if w.at != nil {
		found.at = w.at
	}
	w.found = append(w.found, found)
}

// passesOn reports whether fn's result is made from its arguments only.
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
