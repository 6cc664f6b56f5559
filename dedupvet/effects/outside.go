package effects

import (
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

var outside = code.NewAnalyzer("effectoutside", `report requests, commands and pauses inside effects

An effect may run more than once, and all runs but one are rolled back: the
request or the command of such a run is not undone. Meanwhile the effect holds a
transaction, a connection and its identity. Do it before or after, or record in
the effect that it is to be done and do it after the commit.

A tool of class tool.ReadOnly may make requests: there is nothing to roll back.`,
	inEffects(func(pass *analysis.Pass, r *region, call ssa.CallInstruction) {
		switch fn := code.Callee(call.Common()); {
		case fn == nil:
		case waits(fn):
			pass.Reportf(call.Pos(), "%s %s: it holds the transaction, its locks and a connection all the while; wait before or after", code.FuncName(fn), r.where())
		case !r.readOnly && leaves(fn):
			pass.Reportf(call.Pos(), "%s %s: an effect may be run again, and no rollback takes this back; do it before or after, or record in the effect that it is to be done", code.FuncName(fn), r.where())
		}
	}), regions)

func waits(fn *types.Func) bool { return api.IsFunc(fn, "time", "Sleep", "After", "Tick") }

// leaves reports whether fn sends something to anything but the database.
func leaves(fn *types.Func) bool {
	return api.IsFunc(fn, "net/http", "Get", "Head", "Post", "PostForm") ||
		api.IsMethod(fn, "net/http", "Client", "Do", "Get", "Head", "Post", "PostForm") ||
		api.IsMethod(fn, "net/http", "Transport", "RoundTrip") ||
		api.IsMethod(fn, "net/http", "RoundTripper", "RoundTrip") ||
		api.IsMethod(fn, "os/exec", "Cmd", "Run", "Start", "Output", "CombinedOutput") ||
		api.IsFunc(fn, "os", "StartProcess") ||
		api.IsFunc(fn, "net", "Dial", "DialTimeout", "DialIP", "DialTCP", "DialUDP", "DialUnix") ||
		api.IsMethod(fn, "net", "Dialer", "Dial", "DialContext", "DialIP", "DialTCP", "DialUDP", "DialUnix") ||
		api.IsFunc(fn, "crypto/tls", "Dial", "DialWithDialer") ||
		api.IsMethod(fn, "crypto/tls", "Dialer", "Dial", "DialContext") ||
		api.IsFunc(fn, "net/smtp", "Dial", "SendMail") ||
		api.IsMethod(fn, "net/smtp", "Client", "Mail", "Rcpt", "Data") ||
		api.IsFunc(fn, "net/rpc", "Dial", "DialHTTP", "DialHTTPPath") ||
		api.IsMethod(fn, "net/rpc", "Client", "Call", "Go") ||
		api.IsRPC(fn)
}
