package figures

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// size is how much source there is, and how many names of it users can write.
type size struct{ files, lines, exported int }

func (s size) plus(other size) size {
	return size{s.files + other.files, s.lines + other.lines, s.exported + other.exported}
}

// tree is what git tracks.
type tree struct {
	tracked int
	folders map[string]size // by path
	median  int             // lines of a source file
	longest string
}

func readTree(ctx context.Context, root string) (tree, error) {
	listed, err := output(ctx, root, "git", "ls-files", "-z")
	if err != nil {
		return tree{}, err
	}
	t := tree{folders: make(map[string]size)}
	lengths := map[string]int{}
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed yet
		} else if err != nil {
			return tree{}, fmt.Errorf("counting lines: %w", err)
		}
		t.tracked++
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return tree{}, err
		}
		if ast.IsGenerated(file) {
			continue
		}
		lengths[name] = bytes.Count(text, []byte("\n"))
		folder := path.Dir(name)
		t.folders[folder] = t.folders[folder].plus(size{1, lengths[name], exportedNames(name, file)})
		if lengths[name] > lengths[t.longest] {
			t.longest = name
		}
	}
	sorted := slices.Sorted(maps.Values(lengths))
	t.median = sorted[len(sorted)/2]
	return t, nil
}

// all is what is below a folder.
func (t tree) all(below string) (all size) {
	for folder, s := range t.folders {
		if below == "." || folder == below || strings.HasPrefix(folder, below+"/") {
			all = all.plus(s)
		}
	}
	return all
}

// exportedNames counts the exported names of a file, with the methods of exported types, if users
// import its package.
func exportedNames(name string, file *ast.File) (n int) {
	top, _, _ := strings.Cut(name, "/")
	if file.Name.Name == "main" || strings.Contains("/"+name, "/internal/") || top == "examples" || top == "dedupvet" {
		return 0
	}
	count := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				n++
			}
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil || ast.IsExported(receiver(decl)) {
				count(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					count(spec.Name)
				case *ast.ValueSpec:
					count(spec.Names...)
				}
			}
		}
	}
	return n
}

// receiver is the name of a method's type, without its parameters.
func receiver(method *ast.FuncDecl) string {
	name, _, _ := strings.Cut(types.ExprString(method.Recv.List[0].Type), "[")
	return strings.TrimPrefix(name, "*")
}
