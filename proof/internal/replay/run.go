package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

var errInterrupted = errors.New("interrupted")

// console writes the messages of the command and of the workers.
type console struct {
	mu  sync.Mutex
	out io.Writer
}

// Write implements [io.Writer].
func (c *console) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(text)
}

func (c *console) printf(format string, args ...any) { _, _ = fmt.Fprintf(c, format+"\n", args...) }

// run runs the command: results go to out, everything else to errs.
func run(ctx context.Context, f *flags, out, errs io.Writer) error {
	if err := f.settle(); err != nil {
		return err
	}
	rec, from, err := openRecording(f.recording)
	if err != nil {
		return err
	}
	c := &console{out: errs}
	sizes := rec.Counts()
	c.printf("recording: %s, %d sessions, %d calls, %d writes", from, sizes.Sessions, sizes.Calls, sizes.Writes)

	r, err := playArms(ctx, f, rec, c)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if r != nil { // after an error the figures are not reliable
		r.Recording = from
		if r.Naive != nil {
			r.Naive.Recording = from
		}
		err = errors.Join(write(f, out, c, r), err)
	}
	if err != nil {
		return err
	}
	if failure := r.failure(); failure != "" {
		return fmt.Errorf("%s delivery does not agree with the recording: %s", r.Mode, failure)
	}
	if n := r.Naive; n != nil {
		c.printf("without dedup: %d effects too many, %d wrong answers, %d lost writes", n.Doubled, n.Wrong, n.Lost)
	}
	c.printf("every answer is the recorded one, every write has one effect (%s)", r.Mode)
	if f.html != "" {
		c.printf("what the words mean: %s", f.html)
	}
	return nil
}

// openRecording opens the named recording, or the first that it finds, and prints its folder.
func openRecording(named string) (rec *recording.Recording, from string, err error) {
	if from = named; from == "" {
		from = recording.LargeDir()
	}
	if from == "" {
		rec, err = recording.Small()
		return rec, "the small one inside this program", err
	}
	rec, err = recording.Open(from)
	if err != nil && named != "" {
		return nil, "", exit.Usage("--recording %s: %w", named, err)
	}
	return rec, from, err
}

// playArms plays the requested arms in turn on one server.
func playArms(ctx context.Context, f *flags, rec *recording.Recording, c *console) (r *result, err error) {
	s, err := openServer(ctx, f)
	if err != nil {
		return nil, err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
		defer cancel()
		if stopErr := s.Stop(stopping); stopErr != nil {
			stopErr = fmt.Errorf("stopping the server: %w", stopErr)
			c.printf("%v", stopErr) // an interruption has no other message
			err = errors.Join(err, stopErr)
		}
	}()
	c.printf("postgres:  %s", s.Source)
	c.printf("through:   %s", f.way)
	c.printf("seed:      %d", f.seed)

	var naive *result
	if f.naive || f.compare {
		naive, err = playArm(ctx, f, worker.Naive, rec, s, c)
		if err != nil || f.naive {
			return naive, err
		}
	}
	if r, err = playArm(ctx, f, worker.Dedup, rec, s, c); r != nil {
		r.Naive = naive
	}
	return r, err
}

// write writes the figures in the requested forms.
func write(f *flags, out io.Writer, c *console, r *result) error {
	if f.html != "" {
		file, err := os.Create(f.html)
		if err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
		if err := errors.Join(writePage(file, r), file.Close()); err != nil {
			return err
		}
		c.printf("page:      %s", f.html)
	}
	if f.json {
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(r)
	}
	return writeTable(out, r)
}
