package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// binary is a test binary with changes in it.
type binary struct {
	path    string
	planted []*mutant
}

var compilerError = regexp.MustCompile(`mutant-(\d+):`)

// build compiles the tests with the changes planted, without those that do not
// compile: they are none. It returns nil when none is left.
func build(ctx context.Context, root, dir string, planted []*mutant) (*binary, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for len(planted) > 0 {
		overlay, err := writeOverlay(root, dir, planted)
		if err != nil {
			return nil, err
		}
		b := &binary{path: filepath.Join(dir, "dedup.test"), planted: planted}
		output, err := compile(ctx, root, b.path, "-overlay", overlay)
		if err == nil {
			return b, nil
		}
		var failed *exec.ExitError
		if !errors.As(err, &failed) || ctx.Err() != nil {
			return nil, fmt.Errorf("compiling the tests: %w", err)
		}
		if planted[0].fn == nil { // a constant that does not compile
			return nil, nil
		}
		bad := map[int]bool{}
		for _, match := range compilerError.FindAllSubmatch(output, -1) {
			id, _ := strconv.Atoi(string(match[1]))
			bad[id] = true
		}
		if len(bad) == 0 {
			return nil, fmt.Errorf("compiling the tests: %w:\n%s", err, output)
		}
		planted = slices.DeleteFunc(slices.Clone(planted), func(m *mutant) bool { return bad[m.id] })
	}
	return nil, nil
}

// compile compiles the tests of the root package. All errors are shown, not only
// the first ten.
func compile(ctx context.Context, root, out string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-c", "-vet=off", "-gcflags=-e", "-o", out}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = root
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	return output.Bytes(), err
}
