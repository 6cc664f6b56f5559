package figures

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// size is how much source there is.
type size struct{ files, lines int }

// tree is what git tracks.
type tree struct {
	tracked, rootFiles   int
	all                  size
	folders              map[string]size // by the first element of the path
	median, longestLines int
	longest              string
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func readTree(ctx context.Context, root string) (tree, error) {
	listed, err := output(ctx, root, "git", "ls-files", "-z")
	if err != nil {
		return tree{}, err
	}
	t := tree{folders: make(map[string]size)}
	var lengths []int
	for name := range strings.SplitSeq(strings.TrimSuffix(listed, "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not committed yet
		} else if err != nil {
			return tree{}, fmt.Errorf("counting lines: %w", err)
		}
		t.tracked++
		folder, _, below := strings.Cut(name, "/")
		if !below {
			folder = "."
		}
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		if !below {
			t.rootFiles++
		}
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "testdata/") || generated.Match(text) {
			continue
		}
		lines := bytes.Count(text, []byte("\n"))
		lengths = append(lengths, lines)
		if lines > t.longestLines {
			t.longest, t.longestLines = name, lines
		}
		t.all = size{t.all.files + 1, t.all.lines + lines}
		t.folders[folder] = size{t.folders[folder].files + 1, t.folders[folder].lines + lines}
	}
	slices.Sort(lengths)
	t.median = lengths[len(lengths)/2]
	return t, nil
}
