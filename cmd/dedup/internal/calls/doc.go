// Package calls has the commands about calls. They read, reset, export and erase records, list
// entries that need attention, print counts, show and resolve effects outside the database, and
// derive keys.
//
// The data comes from package inspect. The fields for --json are stable: later versions may add
// fields and never remove one. The program has no tools of package external. It stores a verdict,
// and a process that has the tool carries it out.
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
