package pgserver

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotPrivate is returned by [Server.Kill] and [Server.Restart] for a server
// that is not a process of ours: one named by DEDUP_DATABASE_URL or one in a
// container. Set [Options.Private] to get one that is.
var ErrNotPrivate = errors.New("the server is not private: start it with Options.Private")

// ErrStopped is returned by [Server.Restart] after [Server.Stop].
var ErrStopped = errors.New("the server has been stopped and its data removed")

// errAbsent marks a way that this machine does not offer, as against one that is
// there and fails. The ways wrap it; [Server.Source] leaves such ways out.
var errAbsent = errors.New("not available")

// An Attempt is one way that [Start] tried without success.
type Attempt struct {
	Way   Way    // which way
	Tried string // what was tried: a variable, sockets, folders, an address
	Err   error  // why it did not work
	Fix   string // what to do to make it work
}

// absent reports whether the way was not there at all.
func (a *Attempt) absent() bool { return errors.Is(a.Err, errAbsent) }

// A NotFoundError is returned by [Start] when no way led to a server. Its message
// lists every way, and it unwraps to the error of each.
type NotFoundError struct {
	Attempts []Attempt // in the order they were tried
}

// Error lists each way on lines of its own: what was tried, why it failed, and
// how to make it work.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no PostgreSQL server found; any one of these would do:")
	for i, a := range e.Attempts {
		fmt.Fprintf(&b, "\n  %d. %s: tried %s\n     failed: %s\n     fix: %s", i+1, a.Way, a.Tried, indent(a.Err.Error()), a.Fix)
	}
	return b.String()
}

// Unwrap returns the error of each way.
func (e *NotFoundError) Unwrap() []error {
	errs := make([]error, len(e.Attempts))
	for i, a := range e.Attempts {
		errs[i] = a.Err
	}
	return errs
}

// indent lines the text's further lines up below its first.
func indent(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n       ")
}

// firstLine cuts the text at its first line break.
func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSuffix(line, ":")
}
