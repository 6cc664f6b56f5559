package kit

import (
	"fmt"

	"github.com/tooldedup/dedup"
)

// Refusal is a business answer: the tool looked, decided not to do it, and
// changed nothing. Every write tool and look-up returns it.
type Refusal struct {
	Message string `json:"message"`
}

// Refuse makes a *Refusal that is final: a retry is refused alike, whatever has
// changed meanwhile.
func Refuse(format string, args ...any) error {
	return dedup.Final(&Refusal{Message: fmt.Sprintf(format, args...)})
}

func (r *Refusal) Error() string { return r.Message }

// Answer is the text that the agent is given.
func (r *Refusal) Answer() string { return "Error: " + r.Message }
