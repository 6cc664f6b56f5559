package figures

import (
	"context"
	"errors"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

const library = "github.com/tooldedup/dedup"

// lib is the root package and its rooms.
type lib struct {
	dir   string
	fset  *token.FileSet
	root  *packages.Package
	rooms []*packages.Package // below internal/, those that the root uses
}

func (l *lib) packages() []*packages.Package { return append([]*packages.Package{l.root}, l.rooms...) }

func load(ctx context.Context, dir string) (*lib, error) {
	l := &lib{dir: dir, fset: token.NewFileSet()}
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: dir, Fset: l.fset,
		Mode: packages.NeedName | packages.NeedImports | packages.NeedCompiledGoFiles | packages.NeedSyntax |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedTypesInfo,
	}, library, library+"/internal/...")
	if err != nil {
		return nil, err
	}
	all := make(map[string]*packages.Package)
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		all[p.PkgPath] = p
	}
	if l.root = all[library]; l.root == nil {
		return nil, errors.New("the root package was not found")
	}
	used := make(map[string]bool)
	var use func(*packages.Package)
	use = func(p *packages.Package) {
		for path := range p.Imports {
			if all[path] != nil && !used[path] {
				used[path] = true
				use(all[path])
			}
		}
	}
	use(l.root)
	for _, path := range slices.Sorted(maps.Keys(used)) {
		l.rooms = append(l.rooms, all[path])
	}
	return l, nil
}

// Uses says for every file of a package which others of it it uses: those that
// declare something that it names.
func Uses(fset *token.FileSet, p *packages.Package) map[string]map[string]bool {
	uses := make(map[string]map[string]bool)
	for id, obj := range p.TypesInfo.Uses {
		if obj.Pkg() != p.Types || !obj.Pos().IsValid() {
			continue
		}
		from, to := fileOf(fset, id.Pos()), fileOf(fset, obj.Pos())
		if _, isPackage := obj.(*types.PkgName); isPackage || from == to {
			continue
		}
		if uses[from] == nil {
			uses[from] = make(map[string]bool)
		}
		uses[from][to] = true
	}
	return uses
}

func fileOf(fset *token.FileSet, pos token.Pos) string {
	return filepath.Base(fset.Position(pos).Filename)
}

func edges(uses map[string]map[string]bool) (n int) {
	for _, to := range uses {
		n += len(to)
	}
	return n
}

// Knot is the largest set of files of which each leads to all others.
func Knot(uses map[string]map[string]bool) []string {
	reach := make(map[string]map[string]bool)
	for from := range uses {
		reach[from] = make(map[string]bool)
		for next := []string{from}; len(next) > 0; next = next[1:] {
			for to := range uses[next[0]] {
				if !reach[from][to] {
					reach[from][to] = true
					next = append(next, to)
				}
			}
		}
	}
	var largest []string
	for from, all := range reach {
		knot := []string{from}
		for to := range all {
			if to != from && reach[to][from] {
				knot = append(knot, to)
			}
		}
		if len(knot) > len(largest) {
			largest = knot
		}
	}
	slices.Sort(largest)
	return largest
}

// errorNames counts a package's exported variables Err… and types that are errors.
func errorNames(p *types.Package) (n int) {
	isError := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj.(type) {
		case *types.Var:
			if strings.HasPrefix(name, "Err") {
				n++
			}
		case *types.TypeName:
			if types.Implements(obj.Type(), isError) || types.Implements(types.NewPointer(obj.Type()), isError) {
				n++
			}
		}
	}
	return n
}
