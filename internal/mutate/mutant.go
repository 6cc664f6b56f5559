package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is one file of the code under test.
type source struct {
	name string // relative to the module's root
	text string
	fset *token.FileSet
	file *ast.File
}

func readSource(root, name string) (*source, error) {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	s := &source{name: name, text: string(text), fset: token.NewFileSet()}
	s.file, err = parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
	return s, err
}

func (s *source) offset(pos token.Pos) int { return s.fset.Position(pos).Offset }

func (s *source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

// of returns a node's text.
func (s *source) of(n ast.Node) string { return s.text[s.offset(n.Pos()):s.offset(n.End())] }

// mutant is one change: the text from start to end becomes insert.
type mutant struct {
	id         int
	src        *source
	fn         *ast.FuncDecl // nil for a constant outside all functions
	kind       string
	line       int
	reach      int // a test that reaches this line can notice
	start, end int
	insert     string
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d %s: %s -> %s", m.src.name, m.line, m.kind, short(m.src.text[m.start:m.end]), short(m.insert))
}

func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return "(nothing)"
	}
	if runes := []rune(text); len(runes) > 90 {
		text = string(runes[:87]) + "..."
	}
	return text
}

// applied returns the text from one place of the file to another, changed.
func (m *mutant) applied(from, to int) string {
	return m.src.text[from:m.start] + m.insert + m.src.text[m.end:to]
}

// mutants lists every change of the file, in the order of the text.
func (s *source) mutants() []*mutant {
	c := &collector{src: s}
	for _, decl := range s.file.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			if decl.Tok == token.CONST {
				c.constants(decl)
			}
		case *ast.FuncDecl:
			if decl.Body != nil {
				c.fn = decl
				c.function(decl.Type, decl.Body)
			}
		}
	}
	slices.SortStableFunc(c.found, func(a, b *mutant) int { return a.start - b.start })
	return c.found
}
