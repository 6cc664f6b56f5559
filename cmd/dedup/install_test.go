package main

import (
	"archive/zip"
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const library = "github.com/tooldedup/dedup"

// checkout is the repository's folder, seen from here.
const checkout = "../.."

// TestLongInstall installs and gets every released module from a module proxy, without go.work and
// without the folders beside it. It takes one after the other: go commands that run at the same
// time each compile the packages that they share.
func TestLongInstall(t *testing.T) {
	t.Parallel()
	p := newProxy(t)

	// As the image installs it. The program is static: an image FROM scratch has no dynamic linker.
	t.Run("Command", func(t *testing.T) {
		run, _ := p.command(t)
		cmd := run()
		build := between(t, dockerfile(t), "\nRUN ", "\n")
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", strings.ReplaceAll(build, "GOBIN=/out", "GOBIN=$PWD")}
		cmd.Env = append(cmd.Env, "GOOS=linux", "GOARCH="+runtime.GOARCH, "VERSION="+p.version)
		output(t, cmd)
		bin := filepath.Join(cmd.Dir, "dedup")
		program, err := elf.Open(bin)
		require.NoError(t, err)
		defer program.Close()
		for _, segment := range program.Progs {
			require.NotEqual(t, elf.PT_INTERP, segment.Type)
		}
		if runtime.GOOS == "linux" {
			require.Equal(t, "dedup version "+p.version+"\n", output(t, exec.Command(bin, "--version")))
			require.Contains(t, output(t, exec.Command(bin, "migrate", "print")), "CREATE TABLE IF NOT EXISTS tool_dedup (")
		}
	})

	t.Run("VetTool", func(t *testing.T) {
		bin := p.install(t, "/dedupvet")
		require.Contains(t, output(t, exec.Command(filepath.Join(bin, "dedupvet"), "help")), "keyloop")
	})

	t.Run("Library", func(t *testing.T) {
		downloaded := p.get(t, "", "", "/tool", "/tool/runner", "/httpdedup", "/deduptest", "/dedupweb", "/migrations")
		require.Equal(t, []string{ // pgx and what pgx needs
			"github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2",
			library, "golang.org/x/sync", "golang.org/x/text",
		}, downloaded)
	})

	t.Run("MCP", func(t *testing.T) {
		downloaded := p.get(t, "/mcpdedup", "/mcpdedup")
		require.Contains(t, downloaded, "github.com/modelcontextprotocol/go-sdk")
		require.NotContains(t, downloaded, "github.com/stretchr/testify")
	})

	t.Run("River", func(t *testing.T) {
		downloaded := p.get(t, "/riverdedup", "/riverdedup")
		require.Contains(t, downloaded, "github.com/riverqueue/river")
		require.NotContains(t, downloaded, "github.com/stretchr/testify")
	})

	t.Run("GRPC", func(t *testing.T) {
		downloaded := p.get(t, "/grpcdedup", "/grpcdedup")
		require.Contains(t, downloaded, "google.golang.org/grpc")
		require.NotContains(t, downloaded, "connectrpc.com/connect")
		require.NotContains(t, downloaded, "github.com/stretchr/testify")
	})

	t.Run("Connect", func(t *testing.T) {
		downloaded := p.get(t, "/connectdedup", "/connectdedup")
		require.Contains(t, downloaded, "connectrpc.com/connect")
		require.NotContains(t, downloaded, "google.golang.org/grpc")
		require.NotContains(t, downloaded, "github.com/stretchr/testify")
	})

	t.Run("OpenTelemetry", func(t *testing.T) {
		downloaded := p.get(t, "/oteldedup", "/oteldedup")
		require.Contains(t, downloaded, "go.opentelemetry.io/otel/metric")
		require.NotContains(t, downloaded, "go.opentelemetry.io/otel/sdk")
		require.NotContains(t, downloaded, "github.com/prometheus/client_golang")
		require.NotContains(t, downloaded, "github.com/stretchr/testify")
	})
}

// proxy is a module proxy that has the modules of this checkout in the version that
// they require of each other.
type proxy struct{ dir, version, modules, next string }

func newProxy(t *testing.T) *proxy {
	t.Helper()
	text, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	required := regexp.MustCompile(`(?m)^\t` + library + ` (v\S+)$`).FindSubmatch(text)
	require.NotNil(t, required, "cmd/dedup does not require the library")
	known := strings.Fields(output(t, exec.Command("go", "env", "GOMODCACHE", "GOPROXY")))
	require.Len(t, known, 2)
	p := &proxy{dir: t.TempDir(), version: string(required[1]), modules: known[0], next: known[1]}
	for _, sub := range released(t) {
		p.add(t, library+sub, filepath.Join(checkout, sub))
	}
	return p
}

// released returns the folders of the modules that users get: those of go.work without examples
// and proof. The folder of the root module is "".
func released(t *testing.T) (folders []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, "go.work"))
	require.NoError(t, err)
	for _, use := range regexp.MustCompile(`(?m)^\t\.(/?\S*)$`).FindAllStringSubmatch(string(text), -1) {
		if use[1] != "/proof" && !strings.HasPrefix(use[1], "/examples") {
			folders = append(folders, use[1])
		}
	}
	require.Contains(t, folders, "")
	return folders
}

// TestReleaseTagsEveryModule: the recipe tags every module that users get, each behind the modules
// that it requires, and the command last: its tag starts the workflow.
func TestReleaseTagsEveryModule(t *testing.T) {
	t.Parallel()

	text, err := os.ReadFile(filepath.Join(checkout, "RELEASE.md"))
	require.NoError(t, err)
	list := strings.Fields(between(t, string(text), "for module in ", ";"))
	var tagged []string
	for _, module := range list {
		folder := "/" + strings.TrimSuffix(module, "/")
		if module == "''" {
			folder = ""
		}
		mod, err := os.ReadFile(filepath.Join(checkout, folder, "go.mod"))
		require.NoError(t, err)
		for _, required := range regexp.MustCompile(`(?m)^\t`+library+`(\S*) v`).FindAllStringSubmatch(string(mod), -1) {
			require.Contains(t, tagged, required[1], "%s requires it", module)
		}
		tagged = append(tagged, folder)
	}
	require.ElementsMatch(t, released(t), tagged)
	require.Equal(t, "/cmd/dedup", tagged[len(tagged)-1])
	workflow, err := os.ReadFile(filepath.Join(checkout, ".github/workflows/release.yml"))
	require.NoError(t, err)
	require.Contains(t, string(workflow), `tags: ["cmd/dedup/v*"]`)
}

// add writes a module as the go command asks a proxy for it. Modules in folders of
// their own below it are left out, and so are hidden folders.
func (p *proxy) add(t *testing.T, module, dir string) {
	t.Helper()
	at := filepath.Join(p.dir, module, "@v")
	require.NoError(t, os.MkdirAll(at, 0o755))
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	for name, text := range map[string]string{
		"list":              p.version,
		p.version + ".info": `{"Version":"` + p.version + `"}`,
		p.version + ".mod":  string(mod),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
	}
	file, err := os.Create(filepath.Join(at, p.version+".zip"))
	require.NoError(t, err)
	archive := zip.NewWriter(file)
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if name != dir && (err == nil || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		inside, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		into, err := archive.Create(path.Join(module+"@"+p.version, filepath.ToSlash(inside)))
		if err != nil {
			return err
		}
		from, err := os.Open(name)
		if err != nil {
			return err
		}
		defer from.Close()
		_, err = io.Copy(into, from)
		return err
	}))
	require.NoError(t, archive.Close())
	require.NoError(t, file.Close())
}

// command is the go command in an empty folder with an empty module cache. Modules
// of others come from the cache of this machine as far as it has them.
func (p *proxy) command(t *testing.T) (run func(args ...string) *exec.Cmd, cache string) {
	t.Helper()
	dir, cache := t.TempDir(), t.TempDir()
	return func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(),
			"GOWORK=off", "GOMODCACHE="+cache, "GOBIN="+filepath.Join(dir, "bin"),
			// -modcacherw lets the test remove the cache. With -trimpath the result does not depend
			// on the path of the cache, so a second run finds it in the build cache.
			"GOFLAGS=-modcacherw -trimpath",
			// As the image is built. The packages that the modules share are compiled once.
			"CGO_ENABLED=0",
			"GOPROXY=file://"+p.dir+",file://"+filepath.Join(p.modules, "cache", "download")+","+p.next,
			"GOPRIVATE=", "GONOPROXY=none", "GOSUMDB=off",
		)
		return cmd
	}, cache
}

// install installs the command of a module and returns the folder that it is in.
func (p *proxy) install(t *testing.T, sub string) string {
	t.Helper()
	run, _ := p.command(t)
	cmd := run("install", library+sub+"@"+p.version)
	output(t, cmd)
	return filepath.Join(cmd.Dir, "bin")
}

// get gets a module into a new one, builds a program with the packages of the library
// there, and returns the modules that were downloaded.
func (p *proxy) get(t *testing.T, sub string, packages ...string) (downloaded []string) {
	t.Helper()
	run, cache := p.command(t)
	output(t, run("mod", "init", "example.com/program"))
	cmd := run("get", library+sub+"@"+p.version)
	program := "package main\n\nimport (\n"
	for _, name := range packages {
		program += "\t_ \"" + library + name + "\"\n"
	}
	program += ")\n\nfunc main() {}\n"
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "main.go"), []byte(program), 0o600))
	output(t, cmd)
	output(t, run("build", "."))

	root := filepath.Join(cache, "cache", "download")
	require.NoError(t, filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if module, found := strings.CutSuffix(filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator))), ".zip"); found {
			downloaded = append(downloaded, path.Dir(path.Dir(module)))
		}
		return err
	}))
	slices.Sort(downloaded)
	return downloaded
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", cmd, out)
	return string(out)
}
