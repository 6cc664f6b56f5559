package keyloop

import (
	"go/ast"
	"go/constant"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/keyflow"
)

// headerName is the header that carries a key to an HTTP server.
const headerName = "Idempotency-Key"

// headers returns the values that the header is set to.
func headers(pass *analysis.Pass) []keyflow.Sink {
	var found []keyflow.Sink
	in := pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	in.WithStack([]ast.Node{(*ast.CallExpr)(nil)}, func(n ast.Node, push bool, stack []ast.Node) bool {
		call := n.(*ast.CallExpr)
		if !push || !api.IsMethod(api.Callee(pass.TypesInfo, call), "net/http", "Header", "Set", "Add") {
			return true
		}
		name := pass.TypesInfo.Types[call.Args[0]].Value
		if name != nil && strings.EqualFold(constant.StringVal(name), headerName) {
			found = append(found, keyflow.Sink{Value: call.Args[1], What: headerName, Stack: slices.Clone(stack)})
		}
		return true
	})
	return found
}
