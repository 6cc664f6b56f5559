package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// test is one test of the root package, and what it reaches when it runs alone.
type test struct {
	name  string
	took  time.Duration
	fails bool
	lines map[string][][2]int // by file, the first and last line of each block
}

func (t *test) reaches(file string, line int) bool {
	for _, block := range t.lines[file] {
		if block[0] <= line && line <= block[1] {
			return true
		}
	}
	return false
}

// aloneLimit bounds a test that runs alone; one that takes longer is left out.
const aloneLimit = 5 * time.Minute

// profile runs every test alone, the quickest first in what it returns. What a
// test reached is kept in dir, where later runs find it: delete dir after tests
// have changed.
func profile(ctx context.Context, dir string, workers []*worker) ([]*test, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "cover.test")
	if _, err := os.Stat(path); err != nil {
		if output, err := compile(ctx, workers[0].root, path, "-cover", "-coverpkg=.", "-covermode=set"); err != nil {
			return nil, fmt.Errorf("compiling the tests: %w:\n%s", err, output)
		}
	}
	names, err := listTests(ctx, workers[0], path)
	if err != nil {
		return nil, err
	}
	tests := make([]*test, len(names))
	err = eachOf(ctx, workers, len(names), func(w *worker, i int) error {
		var err error
		tests[i], err = w.profile(ctx, dir, path, names[i])
		return err
	})
	slices.SortStableFunc(tests, func(a, b *test) int { return cmp.Compare(a.took, b.took) })
	return tests, err
}

func listTests(ctx context.Context, w *worker, path string) ([]string, error) {
	v, err := w.run(ctx, path, 0, aloneLimit, []string{".*"}, "-test.list", ".*")
	if err != nil {
		return nil, err
	}
	names := regexp.MustCompile(`(?m)^(Test|Example|Fuzz)\w*$`).FindAllString(v.output, -1)
	if len(names) == 0 {
		return nil, fmt.Errorf("the tests' binary lists no tests:\n%s", v.output)
	}
	return names, nil
}

// profile runs one test alone.
func (w *worker) profile(ctx context.Context, dir, path, name string) (*test, error) {
	t := &test{name: name}
	cover, result := filepath.Join(dir, name+".cover"), filepath.Join(dir, name+".result")
	if _, err := os.Stat(result); err != nil {
		start := time.Now()
		v, err := w.run(ctx, path, 0, aloneLimit, []string{name}, "-test.coverprofile", cover)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprintf("%t %s\n", v.passed, time.Since(start).Round(time.Millisecond))
		if err := os.WriteFile(result, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(result)
	if err != nil {
		return nil, err
	}
	passed, took, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if t.took, err = time.ParseDuration(took); err != nil {
		return nil, fmt.Errorf("reading %s: %w", result, err)
	}
	if t.fails = passed != "true"; t.fails {
		return t, nil
	}
	text, err = os.ReadFile(cover)
	t.lines = reached(string(text))
	return t, err
}

// block is a line of a cover profile: file:line.column,line.column statements count.
var block = regexp.MustCompile(`(?m)/([^/:]+\.go):(\d+)\.\d+,(\d+)\.\d+ \d+ [1-9]\d*$`)

func reached(cover string) map[string][][2]int {
	lines := map[string][][2]int{}
	for _, match := range block.FindAllStringSubmatch(cover, -1) {
		from, _ := strconv.Atoi(match[2])
		to, _ := strconv.Atoi(match[3])
		lines[match[1]] = append(lines[match[1]], [2]int{from, to})
	}
	return lines
}

// eachOf has the workers do n things, and stops at the first error.
func eachOf(ctx context.Context, workers []*worker, n int, do func(w *worker, i int) error) error {
	next := make(chan int)
	failed := make(chan error, len(workers))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() {
			for i := range next {
				if err := do(w, i); err != nil {
					failed <- err
					cancel()
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	all.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return ctx.Err()
	}
}
