// Package figures counts the repository's own code: how long it is, how its files
// hang together, and what a call goes through.
package figures

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/bench/internal/figure"
)

// The goals are upper limits: what a newcomer can still read through.
const (
	goalRootFiles     = 40     // Go files of the root, tests included
	goalRootLines     = 4_200  // source lines of the root
	goalKnot          = 8      // files of one package that need each other
	goalErrors        = 14     // error names of the root
	goalWalkFiles     = 16     // files that a first Do runs code of
	goalWalkCrossings = 50     // calls from one of them into another
	goalLines         = 34_000 // source lines of the repository
	goalTracked       = 620    // tracked files of the repository
)

// Command returns the command figures.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:   "figures",
		Short: "Count the repository's code, and compare with its goals",
		Long: `Counts the repository's code, and compares it with its goals.

Source is what git tracks as Go, without tests, testdata and generated code; lines are
physical ones. A file uses another one of its package if it names something that is declared
there; in a knot of files each one leads to all others. Error names are exported
variables Err… and exported types with a method Error.

The way of Do is what one first call on a real server ran, as counters of coverage: of the root
package and of what it uses below internal/. Calls into another file are those whose callee
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
	uses := Uses(lib.fset, lib.packages[0])
	filesInRoot, inRoot := sum(way, true)
	files, all := sum(way, false)

	t := figure.NewTable("", "now", "goal")
	row := func(what string, now, goal int) {
		text := "≤ " + figure.Thousands(goal)
		if goal == 0 {
			text = ""
		} else if now > goal {
			text = "over, " + text
		}
		t.Row(what, now, text)
	}
	row("root: Go files, tests included", tree.rootFiles, goalRootFiles)
	row("root: source files", tree.folders["."].files, 0)
	row("root: source lines", tree.folders["."].lines, goalRootLines)
	row("root: files that use files (edges)", edges(uses), 0)
	row("root: largest knot, files", len(Knot(uses)), goalKnot)
	row("root: error names", errorNames(lib.packages[0].Types), goalErrors)
	row("Do: files in the root", filesInRoot, 0)
	row("Do: files, rooms included", files, goalWalkFiles)
	row("Do: functions", all.functions, 0)
	row("Do: calls of these", all.calls, 0)
	row("Do: calls into another file, from the root", inRoot.crossings, 0)
	row("Do: calls into another file, rooms included", all.crossings, goalWalkCrossings)
	row("source lines in all", tree.all.lines, goalLines)
	row("source files in all", tree.all.files, 0)
	row("tracked files", tree.tracked, goalTracked)
	row("lines of the median source file", tree.median, 0)
	row("lines of the longest: "+tree.longest, tree.longestLines, 0)
	t.Write(out)

	t = figure.NewTable("knot of package", "files", "edges")
	for _, p := range lib.packages {
		if uses := Uses(lib.fset, p); len(Knot(uses)) > 1 {
			t.Row(p.Types.Name(), len(Knot(uses)), edges(uses))
		}
	}
	t.Write(out)

	t = figure.NewTable("file on Do's way", "functions", "calls", "into another file")
	for _, s := range way {
		t.Row(s.file, s.functions, s.calls, s.crossings)
	}
	t.Write(out)

	t = figure.NewTable("folder", "files", "lines")
	for _, name := range slices.Sorted(maps.Keys(tree.folders)) {
		t.Row(name, tree.folders[name].files, tree.folders[name].lines)
	}
	t.Write(out)
	return nil
}

// sum adds steps up, and counts the files.
func sum(way []step, rootOnly bool) (files int, all step) {
	for _, s := range way {
		if s.isRoot || !rootOnly {
			files++
			all.functions, all.calls, all.crossings = all.functions+s.functions, all.calls+s.calls, all.crossings+s.crossings
		}
	}
	return files, all
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
