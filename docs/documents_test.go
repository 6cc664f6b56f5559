package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// fragmentFile begins the file in which a fragment of Go in a document is compiled. Every fragment
// may use these imports, declarations and variables. The fragment follows as the body of a function
// that returns an error.
const fragmentFile = `package fragment

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/dedupweb"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/grpcdedup"
	"github.com/tooldedup/dedup/httpdedup"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/migrations"
	"github.com/tooldedup/dedup/oteldedup"
	"github.com/tooldedup/dedup/sqldedup"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/loop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

type Ticket struct { ID int; Title string }

type (
	NoteIn struct { Text string }
	Note   struct { ID int }

	ChargeIn struct { Order string; Cents int }
	Charge   struct { ID string }
)

// sqlc's.
type Queries struct{}
func (*Queries) WithTx(tx pgx.Tx) *Queries
func (*Queries) CreateTicket(ctx context.Context, title string) (Ticket, error)

var (
	db      *sql.DB
	pool    *pgxpool.Pool
	d       *dedup.Deduper
	queries *Queries
	tools   *tool.Registry
	logger  *slog.Logger
	mux     *http.ServeMux

	call   dedup.Call
	key    string
	in     struct { Title string }
	lines  []struct { ID, Title string }
	effect dedup.Effect[Ticket]

	balance, amount int

	t           *testing.T
	databaseURL string
)

func reply(Ticket) error
func replyRefusal(code, message string) error
func retryLater(dedup.Call) error
func reject(error) error
func enqueueMail(context.Context, pgx.Tx, Ticket) error
func accountOf(*http.Request) (string, error)
func authenticated(http.Handler) http.Handler
func createTicket(http.ResponseWriter, *http.Request)
func openTicket(ctx context.Context, d *dedup.Deduper, account, key, title string) (dedup.Result[Ticket], error)
func addTools(tools *tool.Registry) error
func sendCharge(ctx context.Context, key string, in ChargeIn) (Charge, error)

func _(ctx context.Context) (err error) {
`

// snippet is a fenced block of a document.
type snippet struct {
	file     string
	line     int // of its first line
	language string
	text     string
}

// isProgram is true of a complete file, and false of a fragment.
func (s snippet) isProgram() bool { return strings.HasPrefix(s.text, "package ") }

// declares is true of a fragment of declarations, and false of the body of a function.
func (s snippet) declares() bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", s.declared(), parser.SkipObjectResolution)
	return err == nil
}

// declared is the fragment after the declarations, without the functions that it declares.
func (s snippet) declared() string {
	declarations := fragmentFile[:strings.LastIndex(fragmentFile, "func _(")]
	for _, function := range regexp.MustCompile(`(?m)^func \w+\(`).FindAllString(s.text, -1) {
		declarations = regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(function)+`.*\n`).ReplaceAllString(declarations, "")
	}
	return fmt.Sprintf("%s//line %s:%d\n%s", declarations, s.file, s.line, s.text)
}

// source is the Go file to check. Its positions are those of the document.
func (s snippet) source() string {
	if s.isProgram() {
		return fmt.Sprintf("//line %s:%d\n%s", s.file, s.line, s.text)
	}
	if s.declares() {
		return s.declared()
	}
	return fmt.Sprintf("%s//line %s:%d\n%s\n//line end.go:1\nreturn nil\n}\n", fragmentFile, s.file, s.line, s.text)
}

func documents(t *testing.T) []string {
	t.Helper()
	docs, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, docs)
	return append([]string{"README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md"}, docs...)
}

var fence = regexp.MustCompile("^( *)```([a-z]*)$")

// snippets returns a document's fenced blocks, without the indentation of their
// fences.
func snippets(t *testing.T, file string) (all []snippet) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var indent string
	var open *snippet
	for i, line := range strings.Split(string(text), "\n") {
		match := fence.FindStringSubmatch(line)
		switch {
		case match != nil && open == nil:
			require.NotEmpty(t, match[2], "%s:%d: the block does not say its language", file, i+1)
			indent, open = match[1], &snippet{file: file, line: i + 2, language: match[2]}
		case match != nil:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	require.Nil(t, open, "%s: a block is not closed", file)
	return all
}

// Every block of Go in the documents compiles.
func TestReadmeSnippetsCompile(t *testing.T) {
	t.Parallel()

	var blocks []snippet
	for _, file := range documents(t) {
		for _, s := range snippets(t, file) {
			if s.language == "go" {
				blocks = append(blocks, s)
			}
		}
	}
	require.NotEmpty(t, blocks)

	fset := token.NewFileSet()
	var files []*ast.File
	var imports []string
	for _, s := range blocks {
		file, err := parser.ParseFile(fset, "", s.source(), parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
		imports = append(imports, importPaths(t, file)...)
	}
	slices.Sort(imports)
	compiled := importer.ForCompiler(fset, "gc", exportData(t, slices.Compact(imports)))
	for i, s := range blocks {
		for _, err := range typeErrors(fset, files[i], compiled, !s.isProgram()) {
			t.Error(err)
		}
	}
}

func importPaths(t *testing.T, file *ast.File) (paths []string) {
	t.Helper()
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		paths = append(paths, path)
	}
	return paths
}

// typeErrors checks one file. A fragment may leave variables and imports unused.
func typeErrors(fset *token.FileSet, file *ast.File, imports types.Importer, fragment bool) (errs []error) {
	config := types.Config{
		Importer: imports,
		Error: func(err error) {
			if !fragment || !err.(types.Error).Soft {
				errs = append(errs, err)
			}
		},
	}
	_, _ = config.Check(file.Name.Name, fset, []*ast.File{file}, nil) // Error gets them
	return errs
}

// exportData returns where the compiled form of the packages is, and of all that
// they import.
func exportData(t *testing.T, packages []string) importer.Lookup {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export", "--"}, packages...)...)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(t, err, stderr.String())

	exports := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		exports[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(exports[path])
	}
}

// The check above finds what is wrong.
func TestReadmeCheckFindsErrors(t *testing.T) {
	t.Parallel()

	prelude, err := parser.ParseFile(token.NewFileSet(), "", fragmentFile+"return nil }", parser.ImportsOnly)
	require.NoError(t, err)
	imports := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t, importPaths(t, prelude)))
	for text, wants := range map[string]string{
		"result, err := dedup.Do(ctx, d, call, effect)":    "",
		"_ = dedup.Options{MaxWaits: 1}":                   "unknown field MaxWaits",
		"\n_, err = d.Lookup(ctx, key)":                    "bad.md:8: not enough arguments",
		"_ = missing":                                      "undefined: missing",
		"package main\n\nfunc main() { unused := 1 }\n":    "bad.md:9: declared and not used: unused",
		"package main\n\nimport \"fmt\"\n\nfunc main() {}": "\"fmt\" imported and not used",
	} {
		s := snippet{file: "bad.md", line: 7, text: text}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "", s.source(), parser.SkipObjectResolution)
		require.NoError(t, err)
		errs := fmt.Sprint(typeErrors(fset, file, imports, !s.isProgram()))
		if wants == "" {
			require.Equal(t, "[]", errs, text)
		}
		require.Contains(t, errs, wants, text)
	}
}

// The README's first program does what the README says, on a database that has
// what the README says.
func TestReadmeProgramRuns(t *testing.T) {
	t.Parallel()

	first := map[string]string{}
	for _, s := range snippets(t, "README.md") {
		if s.language == "go" && !s.isProgram() {
			continue
		}
		if _, ok := first[s.language]; !ok {
			first[s.language] = s.text
		}
	}
	db := pgtest.New(t)
	pool := db.Pool(t)
	_, err := pool.Exec(t.Context(), first["sql"])
	require.NoError(t, err)

	program := build(t, "readmeprogram", first["go"])
	var printed strings.Builder
	for range 2 {
		run := exec.CommandContext(t.Context(), program)
		run.Env = append(os.Environ(), "DATABASE_URL="+db.URL)
		out, err := run.CombinedOutput()
		require.NoError(t, err, string(out))
		printed.Write(out)
	}
	require.Equal(t, first["text"], printed.String())
	rows := rowsOf(t, pool)
	require.NotZero(t, rows)
	again := exec.CommandContext(t.Context(), program)
	again.Env = append(os.Environ(), "DATABASE_URL="+db.URL)
	out, err := again.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, rows, rowsOf(t, pool))
}

// The guide's table of answers leaves no error of the library out.
func TestGuideNamesEveryError(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile("docs/guide.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "\n## Errors\n")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "\n## ")
	source, err := os.ReadFile("errors.go")
	require.NoError(t, err)
	names := regexp.MustCompile(`(?m)^\t(Err\w+) += `).FindAllStringSubmatch(string(source), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		require.Regexp(t, `(?m)^\| [^|]*`+"`"+name[1]+"` \\|", table)
	}
}

// Links to files of the project lead somewhere, and so do those to headings.
func TestReadmeLinks(t *testing.T) {
	t.Parallel()

	headings := func(file string) (anchors []string) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
			anchor := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
			anchors = append(anchors, strings.ReplaceAll(anchor, " ", "-"))
		}
		return anchors
	}
	others := []string{"SECURITY.md", "mcpdedup/README.md", "riverdedup/README.md", "gormdedup/README.md", "dedupvet/README.md", "examples/agents/README.md", "examples/helpdesk/README.md", "httpdedup/problems.md"}
	for _, file := range append(documents(t), others...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, match := range regexp.MustCompile(`\]\(([^):\s]+)\)`).FindAllStringSubmatch(string(text), -1) {
			path, anchor, _ := strings.Cut(match[1], "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
				_, err := os.Stat(target)
				require.NoError(t, err, "%s: %s", file, match[1])
			}
			if anchor != "" {
				require.Contains(t, headings(target), anchor, "%s: %s", file, match[1])
			}
		}
	}
}

var (
	namedFile = regexp.MustCompile(`[a-z_]+(?:/[a-z_]+)*\.go\b`)
	namedCode = regexp.MustCompile("`(?:([a-z]+)\\.)?([A-Za-z]+)`")
)

// TestWayOfACall compares the table of the way of a call with the code: each file and each name in
// it exists, and each file declares a name of its row.
func TestWayOfACall(t *testing.T) {
	t.Parallel()
	declared, files := map[string]bool{}, map[string]map[string]bool{}
	for _, dir := range []string{".", "internal/canon", "internal/examiner", "internal/guard", "internal/sqllex", "internal/table", "internal/wire"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, paths, dir)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			names := map[string]bool{}
			files[filepath.ToSlash(path)] = names
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, decl := range parsed.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					declared[decl.Name.Name], names[decl.Name.Name] = true, true
				case *ast.GenDecl:
					for _, spec := range decl.Specs {
						if of, ok := spec.(*ast.TypeSpec); ok {
							declared[of.Name.Name], names[of.Name.Name] = true, true
						}
					}
				}
			}
		}
	}
	const document, title = "CONTRIBUTING.md", "\n### The way of a call\n"
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), title)
	require.True(t, ok, "%s has no section of this title", document)
	section, _, _ = strings.Cut(section, "\n## ")
	var rows int
	for row := range strings.Lines(section) {
		if !strings.HasPrefix(row, "| ") {
			continue
		}
		rows++
		names := namedCode.FindAllStringSubmatch(row, -1)
		for _, name := range names {
			require.Truef(t, name[1] == "pgx" || declared[name[2]], "%s: %s is not declared: %s", document, name[0], row)
		}
		for _, file := range namedFile.FindAllString(row, -1) {
			in, ok := files[file]
			require.Truef(t, ok, "%s: there is no %s: %s", document, file, row)
			require.Truef(t, slices.ContainsFunc(names, func(name []string) bool { return in[name[2]] }),
				"%s: %s declares nothing of %s", document, file, row)
		}
	}
	require.Greater(t, rows, 10, document)
}
