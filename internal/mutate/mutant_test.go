package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const subject = `package dedup

const limit, name = 2, "a"

const double = limit * 2

func spent(n int) bool {
	switch {
	case n < 0:
		return true
	case n == 0 && name != "":
		return false
	}
	if n > limit {
		n++
	}
	return n != 1
}

func none(f func() error) (err error) {
	defer f()
	return f()
}

func quiet(n *int) {
	*n = 0
}
`

func subjectSource(t *testing.T) (root string, s *source) {
	t.Helper()
	root = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "subject.go"), []byte(subject), 0o600))
	s, err := readSource(root, "subject.go")
	require.NoError(t, err)
	return root, s
}

// planted returns the subject's changes, numbered.
func planted(s *source) []*mutant {
	found := s.mutants()
	for i, m := range found {
		m.id = i + 1
	}
	return found
}

func TestMutants(t *testing.T) {
	t.Parallel()

	_, s := subjectSource(t)
	var got []string
	for _, m := range planted(s) {
		got = append(got, m.String())
	}
	require.Equal(t, []string{
		`subject.go:3 constant: 2 -> 3`,
		`subject.go:3 constant: 2 -> 1`,
		`subject.go:3 constant: "a" -> "0"`,
		`subject.go:5 constant: 2 -> 3`,
		`subject.go:5 constant: 2 -> 1`,
		`subject.go:9 remove case: case n < 0: return true -> (nothing)`,
		`subject.go:9 swap cases: case n < 0: return true case n == 0 && name != "": return false -> case n == 0 && name != "": return false case n < 0: return true`,
		`subject.go:9 negate: n < 0 -> !(n < 0)`,
		`subject.go:9 operator: < -> <=`,
		`subject.go:9 constant: 0 -> 1`,
		`subject.go:9 constant: 0 -> -1`,
		`subject.go:10 return opposite: true -> !(true)`,
		`subject.go:11 remove case: case n == 0 && name != "": return false -> (nothing)`,
		`subject.go:11 negate: n == 0 && name != "" -> !(n == 0 && name != "")`,
		`subject.go:11 operator: == -> !=`,
		`subject.go:11 constant: 0 -> 1`,
		`subject.go:11 constant: 0 -> -1`,
		`subject.go:11 operator: && -> ||`,
		`subject.go:11 operator: != -> ==`,
		`subject.go:12 return opposite: false -> !(false)`,
		`subject.go:14 remove if: if n > limit { n++ } -> (nothing)`,
		`subject.go:14 negate: n > limit -> !(n > limit)`,
		`subject.go:14 operator: > -> >=`,
		`subject.go:15 remove statement: n++ -> (nothing)`,
		`subject.go:15 operator: ++ -> --`,
		`subject.go:17 return opposite: n != 1 -> !(n != 1)`,
		`subject.go:17 operator: != -> ==`,
		`subject.go:17 constant: 1 -> 2`,
		`subject.go:17 constant: 1 -> 0`,
		`subject.go:21 remove statement: defer f() -> (nothing)`,
		`subject.go:22 return zero: f() -> *new(error)`,
		`subject.go:26 remove statement: *n = 0 -> (nothing)`,
		`subject.go:26 constant: 0 -> 1`,
		`subject.go:26 constant: 0 -> -1`,
	}, got)
}

// All changes of functions in one file still make a program, and each body is
// named for its change.
func TestWithBodies(t *testing.T) {
	t.Parallel()

	_, s := subjectSource(t)
	var inFunctions []*mutant
	for _, m := range planted(s) {
		if m.fn != nil {
			inFunctions = append(inFunctions, m)
		}
	}
	text := s.withBodies(inFunctions)
	for _, m := range inFunctions {
		require.Contains(t, text, m.applied(s.offset(m.fn.Body.Pos()), s.offset(m.fn.Body.End())))
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "subject.go", text, 0)
	require.NoError(t, err)
	choice, err := parser.ParseFile(fset, "choice.go", "package dedup\nvar mutant int", 0)
	require.NoError(t, err)
	_, err = new(types.Config).Check("dedup", fset, []*ast.File{file, choice}, nil)
	require.NoError(t, err)
}

func TestConstantUses(t *testing.T) {
	t.Parallel()

	root, s := subjectSource(t)
	other := "package dedup\n\nfunc four() int { return double }\n"
	require.NoError(t, os.WriteFile(filepath.Join(root, "other.go"), []byte(other), 0o600))

	uses, err := constantUses(root, planted(s)[0])
	require.NoError(t, err)
	require.Contains(t, uses, place{"subject.go", 14}, "directly")
	require.Contains(t, uses, place{"other.go", 3}, "by way of another constant")
	require.NotContains(t, uses, place{"subject.go", 17})
}
