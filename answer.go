package dedup

import (
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// answered is how a call was answered by a record.
type answered struct {
	// rec is the answer, nil where there is none.
	rec *table.Record
	// executed is true when this call wrote the record, recovered when it was found after a
	// COMMIT of this call whose answer was lost.
	executed, recovered bool
	// cause is the effect's error behind a refusal that this call recorded.
	cause error
}

// found makes a record the answer that was there. In doubt, a record that was written since the
// call began is most likely the call's: two spans of time are compared, one by the database's
// clock and one by this machine's, and they may go a little apart.
func (a *answered) found(rec *table.Record, began time.Time, inDoubt bool) {
	a.rec = rec
	a.recovered = inDoubt && rec.Age() <= time.Since(began)+10*time.Millisecond
}

// refusal is the error of a call that recorded one.
func (a *answered) refusal() error {
	if a.rec.Outcome != table.Refused {
		return nil
	}
	return firstRefusal(a.rec.Result, a.rec.CreatedAt, a.cause)
}
