package tool

import (
	"fmt"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// Problem is one reason why a tool cannot be registered.
type Problem struct {
	// Tool is the tool's name, Field the field with the fault, and Reason the fault.
	Tool, Field, Reason string
}

// RegistrationError lists every problem of tools that cannot be registered, or cannot be shown by a
// server. Registry.Add and package mcpdedup return it.
type RegistrationError struct {
	Problems []Problem
}

// Error implements error. Each problem is a line.
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
	return &dedup.InvalidError{What: "call", Field: "Tool", Reason: "is not registered: " + door.Name(name)}
}

// readOnlyError is returned if a tool that is registered as ReadOnly tried to write; message is
// Postgres's. It does not wrap the server's error: code 25006 usually means a demoted server, and
// would be retried.
func readOnlyError(tool, message string) error {
	return &dedup.InvalidError{What: "effect", Reason: "of " + tool + ", which is registered as ReadOnly, tried to write (" + message + "); register it as Idempotent, Write or Destructive"}
}

// ArgumentError is returned by Registry.Invoke if a call's arguments do not fit the tool's. The
// tool did not run. A tool's Run may return one too, for arguments that only the database can
// check: it rolls back, [Reply] shows it to the model, and the next call runs.
type ArgumentError struct {
	Tool string
	// Field is the path of the argument, with dots and indexes, such as "lines[2].sku". It is empty
	// if all the arguments are wrong. An unknown name is the caller's text: it is cut to length,
	// and quoted if it does not print.
	Field string
	// Reason is the fault. It never quotes a value.
	Reason string
	// Type is the Go type that cannot hold the argument. It is empty if something else is wrong.
	Type string
	// Err is the error of the argument's own UnmarshalJSON, UnmarshalText or MarshalText. It is nil
	// for any other fault, and for tools with a field tagged redact. Error does not print it,
	// because it may quote the value.
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

// IsAnswer returns true: see [dedup.IsAnswer].
func (e *ArgumentError) IsAnswer() bool { return true }

// ForClient returns the error as a sentence for a model or a client. It names neither the tool nor
// Type.
func (e *ArgumentError) ForClient() string {
	if e.Field == "" {
		return "The arguments " + e.Reason + "."
	}
	return "The argument " + e.Field + " " + e.Reason + "." // Field is cut, and quoted if it does not print
}

// Unwrap returns Err.
func (e *ArgumentError) Unwrap() error { return e.Err }
