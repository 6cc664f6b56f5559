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

// UnknownToolError tells that there is no tool of that name. Returned by
// Registry.Invoke.
type UnknownToolError struct {
	Tool string
}

// Error implements error.
func (e *UnknownToolError) Error() string { return fmt.Sprintf("tool: there is no tool %q", e.Tool) }

// ArgumentError tells that a call's arguments do not fit the tool's. Nothing was
// run. Returned by Registry.Invoke.
type ArgumentError struct {
	Tool string
	// Field is the path of the argument, with dots and indexes, such as
	// "lines[2].sku"; empty where it is the whole.
	Field string
	// Reason says what is wrong, and never quotes a value.
	Reason string
	// Err is the cause, if there is one. Error does not print it: it may quote
	// the value.
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
