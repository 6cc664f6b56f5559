package examiner

import (
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Problem is one thing that is wrong, and how to put it right. Each is stated in one
// place, and package migrations has the constant of its name.
type Problem struct {
	Name string
	// What says what is wrong and what it leads to.
	What string
	// Fix says what to do. Where SQL is all there is to it, it is "run: " and
	// a statement for a role that owns the table.
	Fix string
}

func problem(name, what, fix string) Problem {
	return Problem{Name: name, What: what, Fix: fix}
}

// run is a fix that is one statement. Its names must be quoted already.
func run(format string, args ...any) string {
	return "run: " + fmt.Sprintf(format, args...)
}

// quote quotes a name that comes from the catalogues bare.
func quote(name string) string {
	return pgx.Identifier{name}.Sanitize()
}

// Missing says that there is no such table.
func Missing(name string) string { return "there is no table " + name }
