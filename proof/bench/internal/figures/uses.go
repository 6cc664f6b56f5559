package figures

import (
	"cmp"
	"context"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"
)

const library = "github.com/tooldedup/dedup"

// lib is the root package and the rooms below internal/ that it uses.
type lib struct {
	dir      string
	fset     *token.FileSet
	packages []*packages.Package // the root first
}

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
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return cmp.Compare(a.PkgPath, b.PkgPath) })
	used := map[*packages.Package]bool{}
	packages.Visit(loaded[:1], nil, func(p *packages.Package) { used[p] = true })
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, p.Errors[0]
		}
		if used[p] {
			l.packages = append(l.packages, p)
		}
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

// Knot is the largest set of files of which each leads to all others.
func Knot(uses map[string]map[string]bool) (largest []string) {
	ids, names := map[string]int64{}, slices.Sorted(maps.Keys(uses))
	for i, name := range names {
		ids[name] = int64(i)
	}
	g := simple.NewDirectedGraph()
	for from, all := range uses {
		for to := range all {
			if id, ok := ids[to]; ok { // else it uses nothing, and is in no knot
				g.SetEdge(g.NewEdge(simple.Node(ids[from]), simple.Node(id)))
			}
		}
	}
	for _, knot := range topo.TarjanSCC(g) {
		if len(knot) > len(largest) {
			largest = nil
			for _, node := range knot {
				largest = append(largest, names[node.ID()])
			}
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
		_, isVar := obj.(*types.Var)
		_, isType := obj.(*types.TypeName)
		named := isVar && strings.HasPrefix(name, "Err")
		if obj.Exported() && (named || isType && (types.Implements(obj.Type(), isError) || types.Implements(types.NewPointer(obj.Type()), isError))) {
			n++
		}
	}
	return n
}
