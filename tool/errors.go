package tool

import (
	"fmt"
	"strings"
)

// Problem is one reason why a tool cannot be registered.
type Problem struct {
	// Tool is the tool's name, Field what is wrong with it and Reason why.
	Tool, Field, Reason string
}

// String returns the problem in words.
func (p Problem) String() string {
	if p.Tool == "" {
		return p.Field + " " + p.Reason
	}
	return fmt.Sprintf("%s: %s %s", p.Tool, p.Field, p.Reason)
}

// RegistrationError lists everything because of which tools cannot be
// registered. Returned by Registry.Add.
type RegistrationError struct {
	Problems []Problem
}

// Error implements error, a line for each problem.
func (e *RegistrationError) Error() string {
	var b strings.Builder
	b.WriteString("tool: not registered:")
	for _, p := range e.Problems {
		b.WriteString("\n\t")
		b.WriteString(p.String())
	}
	return b.String()
}

// UnknownToolError says that there is no tool of that name. Returned by
// Registry.Invoke.
type UnknownToolError struct {
	Tool string
}

// Error implements error.
func (e *UnknownToolError) Error() string { return "tool: there is no tool " + shown(e.Tool) }

// ReadOnlyError says that a tool that is registered as ReadOnly tried to write.
// Postgres has kept it from that. It wraps nothing: the server's 25006 stands
// for a demoted server elsewhere and would be retried. Returned by
// Registry.Invoke.
type ReadOnlyError struct {
	Tool string
	// Reason is the server's message.
	Reason string
}

// Error implements error.
func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("tool: %s is registered as ReadOnly and tried to write (%s): give it the class that it has", e.Tool, e.Reason)
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
	// Err is what the argument's type said that could not read or write its
	// JSON or text by itself, nil otherwise and for tools with a field tagged
	// redact. Error does not print it: it may quote the value.
	Err error
}

// Error implements error.
func (e *ArgumentError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("tool: the arguments of %s %s", e.Tool, e.Reason)
	}
	return fmt.Sprintf("tool: argument %s of %s %s", e.Field, e.Tool, e.Reason)
}

// Unwrap returns the cause, or nil.
func (e *ArgumentError) Unwrap() error { return e.Err }
