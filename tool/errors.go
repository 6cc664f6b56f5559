package tool

import (
	"fmt"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// Problem is one reason why a tool cannot be registered.
type Problem struct {
	// Tool is the tool's name, Field what is wrong with it and Reason why.
	Tool, Field, Reason string
}

// RegistrationError lists everything because of which tools cannot be
// registered, or shown by a server. Returned by Registry.Add and by package mcpdedup.
type RegistrationError struct {
	Problems []Problem
}

// Error implements error, a line for each problem.
func (e *RegistrationError) Error() string {
	var b strings.Builder
	b.WriteString("tool: not registered:")
	for _, p := range e.Problems {
		b.WriteString("\n\t")
		if p.Tool != "" {
			b.WriteString(p.Tool + ": ")
		}
		b.WriteString(p.Field + " " + p.Reason)
	}
	return b.String()
}

func unknownTool(name string) error {
	return &dedup.InvalidError{What: "call", Field: "Tool", Reason: "is none that is registered: " + door.Name(name)}
}

// wroteReading says that a tool that is registered as ReadOnly tried to write, and what Postgres,
// which has kept it from that, said. It does not wrap the server's 25006, which
// stands for a demoted server elsewhere and would be retried.
func wroteReading(tool, message string) error {
	return &dedup.InvalidError{What: "effect", Reason: "of " + tool + ", which is registered as ReadOnly, tried to write (" + message + "); give it the class that it has"}
}

// ArgumentError says that a call's arguments do not fit the tool's. Nothing was
// run. Returned by Registry.Invoke.
type ArgumentError struct {
	Tool string
	// Field is the path of the argument, with dots and indexes, such as
	// "lines[2].sku"; empty where it is the whole. Names that are unknown are
	// the caller's own; they are cut, and quoted where they do not print.
	Field string
	// Reason says what is wrong, and never quotes a value.
	Reason string
	// Type is the Go type as which the argument cannot be read, empty if something else is wrong.
	Type string
	// Err is what the argument's type said that could not read or write its
	// JSON or text by itself, nil otherwise and for tools with a field tagged
	// redact. Error does not print it: it may quote the value.
	Err error
}

// Error implements error.
func (e *ArgumentError) Error() string {
	reason := e.Reason
	if e.Type != "" {
		reason += " as " + e.Type
	}
	if e.Field == "" {
		return fmt.Sprintf("tool: the arguments of %s %s", e.Tool, reason)
	}
	return fmt.Sprintf("tool: argument %s of %s %s", e.Field, e.Tool, reason)
}

// IsAnswer is true: see [dedup.IsAnswer].
func (e *ArgumentError) IsAnswer() bool { return true }

// ForClient returns the error as a sentence for a model or a client. It names neither the tool nor
// Type.
func (e *ArgumentError) ForClient() string {
	if e.Field == "" {
		return "The arguments " + e.Reason + "."
	}
	return "The argument " + e.Field + " " + e.Reason + "." // cut and quoted where it is odd
}

// Unwrap returns the cause, or nil.
func (e *ArgumentError) Unwrap() error { return e.Err }
