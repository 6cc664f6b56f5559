package code

import (
	"bytes"
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const directive = "//dedupvet:ignore"

// NewAnalyzer returns an analyzer that requires the [Code] of its package and the given analyzers.
// A comment `//dedupvet:ignore reason` hides the findings on its line, or on the next line if the
// comment stands alone. Without a reason it has no effect: the next reader needs the reason.
func NewAnalyzer(name, doc string, run func(*analysis.Pass), requires ...*analysis.Analyzer) *analysis.Analyzer {
	return &analysis.Analyzer{
		Name: name, Doc: doc, Requires: append(requires, Analyzer),
		Run: func(pass *analysis.Pass) (any, error) {
			silent := lines(pass)
			heard := *pass
			heard.Report = func(d analysis.Diagnostic) {
				if !silent[at(pass.Fset, d.Pos)] {
					pass.Report(d)
				}
			}
			run(&heard)
			return nil, nil
		},
	}
}

// line is a line of a file on disk, regardless of //line comments.
type line struct {
	file string
	n    int
}

func at(fset *token.FileSet, pos token.Pos) line {
	p := fset.PositionFor(pos, false)
	return line{p.Filename, p.Line}
}

// lines returns the lines whose findings are hidden.
func lines(pass *analysis.Pass) map[line]bool {
	silent := make(map[line]bool)
	for _, file := range pass.Files {
		for _, group := range file.Comments {
			for _, comment := range group.List {
				if !hasReason(comment) {
					continue
				}
				here := at(pass.Fset, comment.Pos())
				if standsAlone(pass, comment) {
					here.n++
				}
				silent[here] = true
			}
		}
	}
	return silent
}

func hasReason(comment *ast.Comment) bool {
	reason, ok := strings.CutPrefix(comment.Text, directive)
	return ok && strings.HasPrefix(reason, " ") && strings.TrimSpace(reason) != ""
}

// standsAlone reports whether a comment is the first thing on its line, so that it applies to the
// next line.
func standsAlone(pass *analysis.Pass, comment *ast.Comment) bool {
	pos := pass.Fset.PositionFor(comment.Pos(), false)
	text, err := pass.ReadFile(pos.Filename)
	if err != nil || pos.Offset > len(text) {
		return false
	}
	before := text[:pos.Offset]
	return len(bytes.TrimSpace(before[bytes.LastIndexByte(before, '\n')+1:])) == 0
}
