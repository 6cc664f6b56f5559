package droppederror

import (
	"slices"

	"golang.org/x/tools/go/ssa"

	"github.com/tooldedup/dedup/dedupvet/internal/api"
	"github.com/tooldedup/dedup/dedupvet/internal/code"
)

// rowsOf are the rows that a query returns, nil for other calls.
func rowsOf(in ssa.CallInstruction) ssa.Value {
	if in.Value() == nil {
		return nil
	}
	for _, use := range code.Uses(in.Value()) {
		if rows, ok := use.(*ssa.Extract); ok && rows.Index == 0 && api.IsNamed(rows.Type(), api.PGX, "Rows") {
			return rows
		}
	}
	return nil
}

// checkRows reports rows that are read to their end, which may be an error,
// without asking.
func (c *checker) checkRows(in ssa.CallInstruction) {
	rows := rowsOf(in)
	if rows == nil || asked(rows) {
		return
	}
	for _, use := range code.Uses(rows) {
		if use.(ssa.CallInstruction).Common().Method.Name() == "Next" {
			c.pass.Reportf(c.code.Pos(in), "%s.Err is never asked for %s: a query that fails on its way looks like one that has ended; check it after the loop, or use pgx.CollectRows",
				code.Name(rows), c.region.Where())
			return
		}
	}
}

// asked reports whether rows are asked for their error, which is that of the query too:
// by Err, or by somebody who gets them.
func asked(rows ssa.Value) bool {
	return rows != nil && slices.ContainsFunc(code.Uses(rows), func(use ssa.Instruction) bool {
		call, ok := use.(ssa.CallInstruction)
		return !ok || call.Common().Value != rows || call.Common().Method.Name() == "Err"
	})
}
