package main

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// place is a line of the code under test.
type place struct {
	file string
	line int
}

// constantUses returns the lines that use the constants which the changed
// declaration names, directly or by way of another constant. A constant's own
// line has no coverage.
func constantUses(root string, m *mutant) ([]place, error) {
	paths, err := filepath.Glob(filepath.Join(root, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []*source
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		s, err := readSource(root, filepath.Base(path))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	names := declared(m.src, m.start)
	var uses []place
	for i := 0; i < len(names); i++ {
		for _, s := range all {
			ast.Inspect(s.file, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok || id.Name != names[i] {
					return true
				}
				uses = append(uses, place{s.name, s.fset.Position(id.Pos()).Line})
				for _, name := range declared(s, s.offset(id.Pos())) {
					if !slices.Contains(names, name) {
						names = append(names, name)
					}
				}
				return true
			})
		}
	}
	return uses, nil
}

// declared names the constants of the declaration around an offset, if it is in
// one outside all functions.
func declared(s *source, offset int) []string {
	var names []string
	for _, decl := range s.file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok || gen.Tok != token.CONST {
			continue
		}
		for _, spec := range gen.Specs {
			if s.offset(spec.Pos()) <= offset && offset < s.offset(spec.End()) {
				for _, id := range spec.(*ast.ValueSpec).Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}
