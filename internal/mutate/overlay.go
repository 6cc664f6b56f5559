package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"strings"
)

// switchFile chooses the change. It is in the overlay only.
const switchFile = `package dedup

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("` + mutantEnv + `"))
`

// mutantEnv names the change that a test binary runs; 0 and nothing are none.
const mutantEnv = "DEDUP_MUTANT"

// writeOverlay writes the files that differ below dir, and the list of them that
// go build reads. All of planted must be in functions, or there is only one.
func writeOverlay(root, dir string, planted []*mutant) (string, error) {
	texts := map[string]string{"mutant_switch.go": switchFile}
	for src, of := range bySource(planted) {
		if of[0].fn == nil {
			texts[src.name] = of[0].applied(0, len(src.text))
			continue
		}
		texts[src.name] = src.withBodies(of)
	}
	replace := map[string]string{}
	for name, text := range texts {
		path := filepath.Join(dir, name+".txt") // no Go file, for tools that look for those
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, name)] = path
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}

func bySource(planted []*mutant) map[*source][]*mutant {
	m := map[*source][]*mutant{}
	for _, p := range planted {
		m[p.src] = append(m[p.src], p)
	}
	return m
}

// withBodies returns the file with another body for each change, in front of the
// function's own. A body is a function literal, so that it needs no less of a
// terminating statement than the function does, and keeps its labels and defers.
// Its lines are named for the change, so that an error of the compiler tells
// which change does not compile.
func (s *source) withBodies(planted []*mutant) string {
	of := map[*ast.FuncDecl][]*mutant{}
	for _, m := range planted {
		of[m.fn] = append(of[m.fn], m)
	}
	var b strings.Builder
	at := 0
	for _, decl := range s.file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || of[fn] == nil {
			continue
		}
		from, to := s.offset(fn.Body.Pos()), s.offset(fn.Body.End())
		b.WriteString(s.text[at : from+1])
		opening, closing := "func()", "()\nreturn"
		if fn.Type.Results != nil {
			opening, closing = "return func() "+s.resultList(fn.Type.Results), "()"
		}
		for _, m := range of[fn] {
			fmt.Fprintf(&b, "\nif mutant == %d {\n//line mutant-%d:1\n%s %s%s\n}\n", m.id, m.id, opening, m.applied(from, to), closing)
		}
		fmt.Fprintf(&b, "\n//line %s:%d\n", s.name, s.fset.Position(fn.Body.Pos()).Line)
		at = from + 1
	}
	b.WriteString(s.text[at:])
	return b.String()
}

// resultList writes a list of results in parentheses.
func (s *source) resultList(list *ast.FieldList) string {
	text := s.of(list)
	if strings.HasPrefix(text, "(") {
		return text
	}
	return "(" + text + ")"
}
