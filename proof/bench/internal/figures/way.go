package figures

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/tools/cover"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/types/typeutil"
)

// step is what one call ran of a file: how often its functions, and the calls from them into
// another file.
type step struct {
	file             string
	calls, crossings int
}

// walk runs the program walk with counters, and reads these.
func (l *lib) walk(ctx context.Context) (_ []step, err error) {
	folder, err := os.MkdirTemp("", "figures")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	atExit := filepath.Join(folder, "exit") // what is written when the program ends is of no use
	if err := os.Mkdir(atExit, 0o700); err != nil {
		return nil, err
	}
	const program = library + "/proof/bench/internal/figures/walk"
	cmd := exec.CommandContext(ctx, "go", "run", "-cover", "-covermode=atomic", // and the program itself, or there are no counters
		"-coverpkg="+library+","+library+"/internal/...,"+program, program, folder)
	cmd.Dir, cmd.Env = l.dir, append(os.Environ(), "GOCOVERDIR="+atExit)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("walking: %w: %s", err, out)
	}
	text := filepath.Join(folder, "profile")
	if _, err := output(ctx, l.dir, "go", "tool", "covdata", "textfmt", "-i="+folder, "-o="+text); err != nil {
		return nil, err
	}
	profiles, err := cover.ParseProfiles(text)
	if err != nil {
		return nil, err
	}
	c := counters{fset: l.fset, blocks: make(map[string][]cover.ProfileBlock)}
	for _, p := range profiles {
		c.blocks[p.FileName] = p.Blocks
	}
	var way []step
	for _, p := range l.packages {
		way = append(way, c.count(p)...)
	}
	return way, nil
}

type counters struct {
	fset   *token.FileSet
	blocks map[string][]cover.ProfileBlock // by package and file, in the order of the source
}

// count reads what of a package was run.
func (c counters) count(p *packages.Package) (way []step) {
	for _, file := range p.Syntax {
		name := path.Join(p.PkgPath, fileOf(c.fset, file.Pos()))
		s := step{file: strings.TrimPrefix(name, library+"/")}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			calls := c.times(c.blocks[name], fn.Body.Lbrace, fn.Body)
			if calls == 0 {
				continue
			}
			s.calls += calls
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && c.crosses(p, call) {
					s.crossings += c.times(c.blocks[name], call.Pos(), fn.Body)
				}
				return true
			})
		}
		if s.calls > 0 {
			way = append(way, s)
		}
	}
	return way
}

// times says how often the code at a position of a body ran: as often as the last
// block that begins before it and holds it, or else as the body's first one.
func (c counters) times(blocks []cover.ProfileBlock, pos token.Pos, body *ast.BlockStmt) int {
	place := func(line, column int) int { return line<<16 + column }
	of := func(pos token.Pos) int { return place(c.fset.Position(pos).Line, c.fset.Position(pos).Column) }
	n, found := 0, false
	for _, b := range blocks {
		start, end := place(b.StartLine, b.StartCol), place(b.EndLine, b.EndCol)
		if start < of(body.Lbrace) || start >= of(body.Rbrace) {
			continue
		}
		if !found || start <= of(pos) && of(pos) <= end {
			n, found = b.Count, true
		}
	}
	return n
}

// crosses reports whether a call leads to a function of another file of the library.
func (c counters) crosses(p *packages.Package, call *ast.CallExpr) bool {
	fn := typeutil.StaticCallee(p.TypesInfo, call)
	if fn == nil || fn.Pkg() == nil || !isLibrary(fn.Pkg()) {
		return false
	}
	from, to := c.fset.Position(call.Pos()).Filename, c.fset.Position(fn.Origin().Pos()).Filename
	return from != to
}

func isLibrary(p *types.Package) bool {
	return p.Path() == library || path.Dir(p.Path()) == library+"/internal"
}
