package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// The exit codes of the program.
const (
	ExitOK          = 0   // all is well
	ExitFailed      = 1   // a problem was found, or the command failed
	ExitUsage       = 2   // the command line cannot be carried out
	ExitInterrupted = 130 // Ctrl-C or SIGTERM
)

// UsageError tells that the command line cannot be carried out; nothing was
// done.
type UsageError struct{ Err error }

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// ExitCode returns [ExitUsage].
func (e *UsageError) ExitCode() int { return ExitUsage }

// Usage returns a [*UsageError] with a message made as fmt.Errorf makes it.
func Usage(format string, args ...any) error {
	return &UsageError{Err: fmt.Errorf(format, args...)}
}

// NoArgs is for cobra.Command.Args: it answers any argument with a
// [*UsageError].
func NoArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage("unexpected argument %q", args[0])
	}
	return nil
}

// exitCode returns the code that an error brings along in a method ExitCode,
// or the one that fits it.
func exitCode(ctx context.Context, err error) int {
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &coded):
		return coded.ExitCode()
	case ctx.Err() != nil:
		return ExitInterrupted
	default:
		return ExitFailed
	}
}
