package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// decisionFiles hold what decides whether an effect runs, is answered or waits.
var decisionFiles = []string{
	"constraint.go", "commit.go", "wait.go", "flight.go", "retry.go", "key.go", "fingerprint.go",
	"arg_digests.go", "record.go", "predicates.go", "statement_attempt.go",
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// campaign is one run of the program.
type campaign struct {
	root, dir string
	seed      uint64
	most      int
	limit     time.Duration
	start     time.Time
	out       io.Writer
	byFile    map[string]*tally
	workers   []*worker
	tests     []*test
	fates     []*fate
	unsound   []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "of the sample")
	sample := flags.Int("sample", 140, "how many changes to plant; 0 plants all")
	workers := flags.Int("workers", 2, "how many servers, each with tests on it")
	slowest := flags.Duration("slowest", 30*time.Second, "leave out tests that take longer than this alone; 0 leaves out none")
	most := flags.Int("tests", 0, "run at most so many tests against a change; 0 runs all that reach it")
	limit := flags.Duration("for", 0, "try no further change after so long, in an order drawn from the seed; 0 tries all")
	only := flags.String("only", "", "try only the changes with these numbers, such as 17,42, whatever the sample")
	list := flags.Bool("list", false, "list the sampled changes and plant none")
	dir := flags.String("dir", ".cache/mutate", "keeps what the tests reach from one run to the next; delete it after tests have changed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	start := time.Now()
	c := &campaign{root: root, dir: filepath.Join(root, *dir), seed: *seed, out: out, most: *most, limit: *limit, start: start, byFile: map[string]*tally{"all": {}}}
	if filepath.IsAbs(*dir) {
		c.dir = *dir
	}
	planted, err := c.sample(*sample, *only)
	if err != nil {
		return err
	}
	if *list {
		slices.SortFunc(planted, func(a, b *mutant) int { return a.id - b.id })
		for _, m := range planted {
			fmt.Fprintf(out, "#%d %s\n", m.id, m)
		}
		return nil
	}
	defer c.stop(context.WithoutCancel(ctx))
	if err := c.measure(ctx, *workers, *slowest, planted); err != nil {
		return err
	}
	return c.report(time.Since(start))
}

// sample numbers all changes and draws some of them, the same for the same seed
// and the same code.
func (c *campaign) sample(n int, only string) ([]*mutant, error) {
	var all []*mutant
	for _, name := range decisionFiles {
		src, err := readSource(c.root, name)
		if err != nil {
			return nil, fmt.Errorf("%w (run this in the module's root)", err)
		}
		found := src.mutants()
		c.byFile[name] = &tally{Possible: len(found)}
		all = append(all, found...)
	}
	for i, m := range all {
		m.id = i + 1
	}
	c.byFile["all"].Possible = len(all)
	if only != "" {
		all = slices.DeleteFunc(all, func(m *mutant) bool { return !slices.Contains(strings.Split(only, ","), fmt.Sprint(m.id)) })
	} else if n > 0 && n < len(all) {
		random := rand.New(rand.NewPCG(c.seed, 0))
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:n]
	}
	for _, m := range all {
		c.count(m, func(t *tally) { t.Sampled++ })
	}
	return all, nil
}

// count changes the tally of the change's file and that of all.
func (c *campaign) count(m *mutant, change func(*tally)) {
	change(c.byFile[m.src.name])
	change(c.byFile["all"])
}

// measure plants the changes and finds out which of them are caught.
func (c *campaign) measure(ctx context.Context, workers int, slowest time.Duration, planted []*mutant) error {
	for range workers {
		w, err := newWorker(ctx, c.root)
		if err != nil {
			return err
		}
		c.workers = append(c.workers, w)
	}
	var err error
	if c.tests, err = profile(ctx, filepath.Join(c.dir, "reach"), c.workers); err != nil {
		return err
	}
	if slowest > 0 {
		c.tests = slices.DeleteFunc(c.tests, func(t *test) bool { return t.took > slowest })
	}
	for _, t := range c.tests {
		if t.fails {
			c.unsound = append(c.unsound, t.name)
		}
	}
	if err := c.plantTogether(ctx, planted); err != nil {
		return err
	}
	if err := c.plantConstants(ctx, planted); err != nil {
		return err
	}
	return c.confirm(ctx)
}

// plantTogether compiles the changes in functions into one binary and tries them.
func (c *campaign) plantTogether(ctx context.Context, planted []*mutant) error {
	var inFunctions []*mutant
	for _, m := range planted {
		if m.fn != nil {
			inFunctions = append(inFunctions, m)
		}
	}
	b, err := build(ctx, c.root, filepath.Join(c.dir, "functions"), inFunctions)
	if err != nil || b == nil {
		return err
	}
	for _, m := range b.planted {
		c.fates = append(c.fates, &fate{mutant: m, bin: b.path})
	}
	return c.try(ctx, c.fates)
}

// plantConstants compiles each changed constant into a binary of its own and
// tries it.
func (c *campaign) plantConstants(ctx context.Context, planted []*mutant) error {
	constants := slices.DeleteFunc(slices.Clone(planted), func(m *mutant) bool { return m.fn != nil })
	built := make([]*fate, len(constants))
	err := eachOf(ctx, c.workers, len(constants), func(_ *worker, i int) error {
		m := constants[i]
		b, err := build(ctx, c.root, filepath.Join(c.dir, fmt.Sprintf("constant-%d", m.id)), []*mutant{m})
		if err == nil && b != nil {
			built[i] = &fate{mutant: m, bin: b.path}
		}
		return err
	})
	if err != nil {
		return err
	}
	built = slices.DeleteFunc(built, func(f *fate) bool { return f == nil })
	c.fates = append(c.fates, built...)
	return c.try(ctx, built)
}

// try runs the tests against the changes.
func (c *campaign) try(ctx context.Context, fates []*fate) error {
	return eachOf(ctx, c.workers, len(fates), func(w *worker, i int) error {
		f := fates[i]
		if c.limit > 0 && time.Since(c.start) > c.limit {
			return nil
		}
		uses, err := constantUses(c.root, f.mutant)
		if err != nil {
			return err
		}
		tests := reaching(ranked(c.tests, f.src.name), f.mutant, uses, c.unsound)
		if c.most > 0 {
			tests = tests[:min(c.most, len(tests))]
		}
		if err := w.try(ctx, f, tests); err != nil {
			return err
		}
		what := "survived"
		if f.caught {
			what = fmt.Sprintf("killed by %v", f.by)
		}
		fmt.Fprintf(c.out, "#%d %s: %s after %d tests\n", f.id, f, what, f.tests)
		return nil
	})
}

// confirm takes back what was caught only by tests that fail with no change too.
func (c *campaign) confirm(ctx context.Context) error {
	if len(c.fates) == 0 {
		return nil
	}
	for {
		unsound, err := control(ctx, c.workers, c.fates[0].bin, c.fates)
		if err != nil || len(unsound) == 0 {
			return err
		}
		c.unsound = append(c.unsound, unsound...)
		var again []*fate
		for _, f := range c.fates {
			if f.caught && !slices.ContainsFunc(f.by, func(name string) bool { return !slices.Contains(c.unsound, name) }) {
				again = append(again, f)
			}
		}
		if err := c.try(ctx, again); err != nil {
			return err
		}
	}
}

func (c *campaign) stop(ctx context.Context) {
	for _, w := range c.workers {
		if err := w.server.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "mutate: stopping the server:", err)
		}
	}
}

func (c *campaign) report(took time.Duration) error {
	slices.SortFunc(c.fates, func(a, b *fate) int { return a.id - b.id })
	for _, f := range c.fates {
		c.count(f.mutant, func(t *tally) { t.Compiled++ })
		if !f.tried {
			c.count(f.mutant, func(t *tally) { t.Untried++ })
			continue
		}
		if f.caught {
			c.count(f.mutant, func(t *tally) { t.Killed++ })
		} else {
			c.count(f.mutant, func(t *tally) { t.Survived++ })
		}
	}
	s := &summary{Campaign: "mutation", Seed: c.seed, tally: *c.byFile["all"], Seconds: took.Round(time.Second).Seconds(), Unsound: c.unsound}
	return s.print(c.out, decisionFiles, c.byFile, c.fates)
}
