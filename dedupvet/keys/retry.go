package keys

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// isRetry reports whether a loop repeats a call with the key of a sink until the call succeeds.
func (c *checker) isRetry(loop *loop, sink sink) bool {
	for in := range code.Instructions(loop.header.Parent()) {
		call, ok := in.(*ssa.Call)
		if !ok || !loop.holds(call) {
			continue
		}
		requests := requests(call)
		sends := requests || sink.what == header && api.IsRPC(code.Callee(&call.Call))
		if (sends || makesCall(call) || slices.Contains(call.Call.Args, sink.value)) && c.repeats(loop, call, requests) {
			return true
		}
	}
	return false
}

// repeats reports whether a loop repeats a call until it succeeds: it may repeat the call after a
// failure, and never after a success. For an HTTP request it is enough that the loop may end after
// a success.
func (c *checker) repeats(loop *loop, call ssa.CallInstruction, requests bool) bool {
	err := errorOf(call)
	if err == nil || loop.isOverItems() {
		return false
	}
	again, _ := loop.after(call, facts{err: false})
	more, left := loop.after(call, facts{err: true})
	return again && (!more || requests && left)
}

// makesCall reports whether a function gets a call of dedup as an argument, so that it may make the
// call.
func makesCall(call *ssa.Call) bool {
	for _, arg := range call.Call.Args {
		t := arg.Type()
		if slice, ok := t.Underlying().(*types.Slice); ok {
			t = slice.Elem()
		}
		if api.IsNamed(t, api.Dedup, "Call", "StatementCall") || api.IsNamed(t, api.Tool, "Invocation") {
			return true
		}
	}
	return false
}

func requests(call *ssa.Call) bool {
	fn := code.Callee(&call.Call)
	return api.IsMethod(fn, "net/http", "Client", "Do") || api.IsMethod(fn, "net/http", "RoundTripper", "RoundTrip")
}
