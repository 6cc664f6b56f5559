package replay

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tooldedup/dedup/internal/citusdb"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/arm"
	"github.com/tooldedup/dedup/proof/internal/replay/progress"
	"github.com/tooldedup/dedup/proof/internal/replay/report"
	"github.com/tooldedup/dedup/proof/internal/replay/stage"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

var errInterrupted = errors.New("interrupted")

// run carries the command out.
func run(ctx context.Context, f *flags, io streams) error {
	if err := f.settle(); err != nil {
		return err
	}
	rec, from, err := openRecording(f.recording)
	if err != nil {
		return err
	}
	display := progress.New(io.err)
	counts := rec.Counts()
	display.Printf("recording: %s, %d sessions, %d calls, %d writes", from, counts.Sessions, counts.Calls, counts.Writes)

	result, err := replayAll(ctx, f, rec, display)
	display.Close()
	if ctx.Err() != nil {
		return errInterrupted
	}
	if result != nil {
		result.Recording = from
		if result.Naive != nil {
			result.Naive.Recording = from
		}
		err = errors.Join(write(f, io, result), err)
	}
	if err != nil {
		return err
	}
	if failure := result.Failure(); failure != "" {
		return fmt.Errorf("%s delivery does not agree with the recording: %s", result.Mode, failure)
	}
	if n := result.Naive; n != nil {
		fmt.Fprintf(io.err, "without dedup: %d effects too many, %d wrong answers, %d lost writes\n", n.Doubled, n.Wrong, n.Lost)
	}
	fmt.Fprintf(io.err, "every answer and every final state is the recorded one, every write has one effect (%s)\n", result.Mode)
	if f.html != "" {
		fmt.Fprintf(io.err, "what the words mean: %s\n", f.html)
	}
	return nil
}

// replayAll runs the arms that are wanted, one after the other, on one server.
// A result may come with an error: the figures then are not to be trusted.
func replayAll(ctx context.Context, f *flags, rec *recording.Recording, display *progress.Display) (result *report.Result, err error) {
	server, err := openServer(ctx, f)
	if errors.Is(err, stage.ErrURL) {
		return nil, exit.Usage("--database-url: %w", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := server.Stop(ctx); stopErr != nil {
			display.Printf("%v", stopErr) // of an interruption nothing else is said
			err = errors.Join(err, stopErr)
		}
	}()
	display.Printf("postgres:  %s", server.Source)
	display.Printf("through:   %s", f.way)
	display.Printf("seed:      %d", f.seed)

	one := func(mode worker.Mode) (*report.Result, error) {
		return arm.Run(ctx, arm.Config{
			Recording: rec, Seed: f.seed, Kinds: f.kinds, Display: display, Verbose: f.verbose,
			Setup:  worker.Setup{Mode: mode, Way: f.way, Pays: f.pays, Metrics: f.metrics, Attempts: f.attempts},
			Worker: process.Command{Args: []string{workerName}},
		}, server)
	}
	if f.naive {
		return one(worker.Naive)
	}
	var naive *report.Result
	if f.compare {
		if naive, err = one(worker.Naive); err != nil {
			return nil, err
		}
	}
	if result, err = one(worker.Dedup); result != nil {
		result.Naive = naive
	}
	return result, err
}

func openServer(ctx context.Context, f *flags) (*stage.Server, error) {
	if f.citus {
		return stage.OpenCluster(ctx, citusdb.URLs())
	}
	return stage.OpenServer(ctx, f.databaseURL)
}

// write writes the figures in the forms that are wanted.
func write(f *flags, io streams, result *report.Result) error {
	if f.html != "" {
		if err := writePage(f.html, result); err != nil {
			return err
		}
		fmt.Fprintf(io.err, "page:      %s\n", f.html)
	}
	if f.json {
		return report.JSON(io.out, result)
	}
	return report.Table(io.out, result)
}

func writePage(path string, result *report.Result) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return errors.Join(report.HTML(file, result), file.Close())
}
