// Package figures counts the repository's own code: how long it is, how its files
// hang together, and what a call goes through.
package figures

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/proof/bench/internal/measure"
)

// Goals that a test holds the library to. All goals are upper limits: what a newcomer can still
// read through.
const (
	goalKnot   = 7  // files of the root that need each other
	goalErrors = 14 // error names of the root
)

// Command returns the command figures.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "figures",
		Short: "Count the repository's code, and compare with its goals",
		Long: `Counts the repository's code, and compares it with its goals.

Source is what git tracks as Go, without tests, testdata and generated code; lines are
physical ones. Exported names are those of packages and the methods of exported types; packages that
users import are all but commands, dedupvet, examples and what is internal. The rooms are the packages
below internal/ that the root uses. A file uses another one of its package if it names something that is declared
there; in a knot of files each one leads to all others. Error names are exported
variables Err… and exported types with a method Error.

The way of Do is what one first call on a real server ran, as counters of coverage: of the root
package and of its rooms. Calls into another file are those whose callee
is known when compiling, as often as their block ran. So calls of function values and of
interfaces' methods are missing, and a call behind && counts although it may not have been made.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), cmd.OutOrStdout()) },
	}
}

func run(ctx context.Context, out io.Writer) error {
	top, err := output(ctx, "", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	root := strings.TrimSpace(top)
	tree, err := readTree(ctx, root)
	if err != nil {
		return err
	}
	lib, err := load(ctx, root)
	if err != nil {
		return err
	}
	way, err := lib.walk(ctx)
	if err != nil {
		return err
	}
	var engine size
	for _, p := range lib.packages {
		folder := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, library), "/")
		if folder == "" {
			folder = "."
		}
		engine = engine.plus(tree.folders[folder])
	}
	crossings := 0
	for _, s := range way {
		crossings += s.crossings
	}

	t := measure.NewTable(out, "", "now", "goal")
	for _, row := range []struct {
		what      string
		now, goal int
	}{
		{"root: exported names", tree.folders["."].exported, 115},
		{"root: error names", errorNames(lib.packages[0].Types), goalErrors},
		{"root: largest knot, files", len(Knot(Uses(lib.fset, lib.packages[0]))), goalKnot},
		{"root and rooms: source lines", engine.lines, 10_000},
		{"Do: files, rooms included", len(way), 18},
		{"Do: calls into another file", crossings, 80},
		{"all packages that users import: exported names", tree.all(".").exported, 380},
		{"source lines in all", tree.all(".").lines, 39_000},
		{"tracked files", tree.tracked, 950},
	} {
		goal := "≤ " + measure.Text(row.goal)
		if row.now > row.goal {
			goal = "over, " + goal
		}
		t.Row(row.what, row.now, goal)
	}
	t.Row("lines of the median source file", tree.median)
	t.Row("the longest: " + tree.longest)
	t.Flush()

	t = measure.NewTable(out, "file on Do's way", "calls of its functions", "calls into another file")
	for _, s := range way {
		t.Row(s.file, s.calls, s.crossings)
	}
	t.Flush()

	t = measure.NewTable(out, "folder", "files", "lines", "exported names")
	var folders []string
	for folder := range tree.folders {
		top, _, _ := strings.Cut(folder, "/")
		folders = append(folders, top)
	}
	slices.Sort(folders)
	for _, folder := range slices.Compact(folders) {
		s := tree.all(folder)
		if folder == "." {
			s = tree.folders["."]
		}
		t.Row(folder, s.files, s.lines, s.exported)
	}
	t.Flush()
	return nil
}

// output runs a program in a folder and returns what it writes.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	return string(out), err
}
