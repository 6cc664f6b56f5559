// Package calls has the commands about calls: those that read and free records, list what needs
// attention and what is counted, say what became of effects outside of the database, and derive
// keys.
//
// What they read comes from package inspect, and what it has for --json is stable: more fields may
// come, none goes. The program has no tools of package external. It stores a verdict, and a process
// that has the tool carries it out.
package calls

import (
	"time"

	"github.com/tooldedup/dedup/internal/inspect"
)

// moment is a time and how long ago it was. The time is written in full, as --created-at
// wants it.
func moment(at, now time.Time) string {
	return at.UTC().Format(time.RFC3339Nano) + " (" + inspect.Ago(at, now) + ")"
}
