// Package exit has the exit codes of this repository's programs, the errors that select one, and
// the messages to the user.
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
	Misused     = 2   // usage error
	Interrupted = 130 // Ctrl-C or SIGTERM
)

// UsageError is the error of an invalid command line. Nothing was done.
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

// Report writes the error of a command to out and returns the exit code: the result of the error's
// method ExitCode if it has one, else [Interrupted] if ctx ended, else [Failed]. command begins
// with the program, such as "dedup migrate up".
func Report(ctx context.Context, out io.Writer, command string, err error) int {
	program, _, _ := strings.Cut(command, " ")
	code := codeOf(ctx, err)
	if code == Interrupted {
		_, _ = fmt.Fprintln(out, program+": interrupted")
		return code
	}
	// Errors of the library already begin with "dedup: ".
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
