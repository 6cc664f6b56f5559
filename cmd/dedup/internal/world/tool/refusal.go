package tool

import "fmt"

// Refusal is a business answer: the tool looked, decided not to do it, and
// changed nothing. Every write tool and look-up returns it. It encodes as JSON,
// so that it can be stored and replayed.
type Refusal struct {
	Message string `json:"message"`
}

// Refuse makes a *Refusal.
func Refuse(format string, args ...any) *Refusal {
	return &Refusal{Message: fmt.Sprintf(format, args...)}
}

func (r *Refusal) Error() string { return r.Message }

// Answer is the text that the agent is given.
func (r *Refusal) Answer() string { return "Error: " + r.Message }

// ArgumentError says that a call's arguments are not the ones the tool takes.
// Tool.Run and Tool.Answer return it; nothing has been read or written.
type ArgumentError struct {
	Name Name
	Err  error
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("arguments of %s %s: %v", e.Name.Domain, e.Name.Tool, e.Err)
}

// Unwrap returns the cause.
func (e *ArgumentError) Unwrap() error { return e.Err }
