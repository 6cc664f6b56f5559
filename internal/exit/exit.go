// Package exit is how the programs of this repository end: their exit codes, the
// errors that choose one, and what is written of them.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes of a program.
const (
	OK          = 0   // all is well
	Failed      = 1   // a problem was found, or the command failed
	Misused     = 2   // the command line cannot be carried out
	Interrupted = 130 // Ctrl-C or SIGTERM
)

// UsageError is a command line that cannot be carried out. Nothing was done.
type UsageError struct{ Err error }

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitCode returns [Misused].
func (e *UsageError) ExitCode() int { return Misused }

// Usage returns a [*UsageError] with a message made as fmt.Errorf makes it.
func Usage(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// Report writes to out why a command failed, and returns the exit code. The code is
// the one that the error brings along in a method ExitCode, [Interrupted] where ctx
// has ended, or [Failed]. The command is named with its program, such as
// "dedup migrate up".
func Report(ctx context.Context, out io.Writer, command string, err error) int {
	program, _, _ := strings.Cut(command, " ")
	code := codeOf(ctx, err)
	if code == Interrupted {
		_, _ = fmt.Fprintln(out, program+": interrupted")
		return code
	}
	// Errors of the library dedup name it by themselves.
	_, _ = fmt.Fprintf(out, "%s: %s\n", program, strings.TrimPrefix(err.Error(), program+": "))
	var usage *UsageError
	if errors.As(err, &usage) {
		_, _ = fmt.Fprintf(out, "Run `%s --help` for help.\n", command)
	}
	return code
}

func codeOf(ctx context.Context, err error) int {
	var coded interface{ ExitCode() int }
	switch {
	case errors.As(err, &coded):
		return coded.ExitCode()
	case ctx.Err() != nil:
		return Interrupted
	default:
		return Failed
	}
}
