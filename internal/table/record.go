package table

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/internal/wire"
)

// Outcome is how a call ended, as it stands in the table.
type Outcome string

const (
	Done    Outcome = "done"    // the result is the answer
	Refused Outcome = "refused" // the result is the refusal
	Broken  Outcome = "broken"  // the effect ended its own transaction
	claimed Outcome = "claimed" // the claim of ClaimFirst, before its COMMIT
)

func (o Outcome) known() bool {
	switch o {
	case Done, Refused, Broken, claimed:
		return true
	}
	return false
}

// Record is a row of tool_dedup without its identity.
type Record struct {
	Fingerprint [sha256.Size]byte
	ArgDigests  []byte
	Outcome     Outcome
	Result      string
	Tombstone   bool // the result has been dropped
	CreatedAt   time.Time
	ExpiresAt   time.Time
	ForgetAt    time.Time
	// SeenAt is the database's clock when the row was read or written. All judgements
	// of age compare times of this one clock.
	SeenAt time.Time
	// SentAt is this machine's clock when the statement was sent that read or wrote
	// the row: for a call that began before, the record is no older than the call.
	SentAt time.Time
}

// Forgotten reports whether the identity may be used anew.
func (r *Record) Forgotten() bool { return !r.SeenAt.Before(r.ForgetAt) }

// Expired reports whether the result may no longer be replayed.
func (r *Record) Expired() bool { return r.Tombstone || !r.SeenAt.Before(r.ExpiresAt) }

// IsBroken reports whether the effect ended its own transaction. A claim that can
// be seen was committed by its own effect.
func (r *Record) IsBroken() bool { return r.Outcome == Broken || r.Outcome == claimed }

// Age is the time since the first call.
func (r *Record) Age() time.Duration { return r.SeenAt.Sub(r.CreatedAt) }

// NewRecord is the record of an entry, but for its times.
func NewRecord(e *Entry, outcome Outcome, result string) Record {
	return Record{Fingerprint: e.Fingerprint, ArgDigests: e.ArgDigests, Outcome: outcome, Result: result, Tombstone: outcome == Broken}
}

// SetTimes gives a record that has just been written its times. Postgres has added the
// same ages to the same moment.
func (r *Record) SetTimes(at time.Time, e *Entry) {
	r.CreatedAt, r.SeenAt = at, at
	r.ExpiresAt, r.ForgetAt = at.Add(e.Keep), at.Add(e.Forget)
}

// columns are where the columns of a look-up go.
func columns(room *wire.Room) []any {
	dest := append(room.Dest[:0], &room.Bytes[0], &room.Bytes[1], &room.Text, &room.Maybe)
	for i := range room.Times {
		dest = append(dest, &room.Times[i])
	}
	return dest
}

// read reads the answer of a look-up. It reports whether there was a row.
func (r *Record) read(results *wire.Results) (bool, error) {
	room := &results.Room
	room.Bytes[0], room.Bytes[1] = r.Fingerprint[:0], nil
	err := results.Scan(columns(room)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.fill(results)
}

// fill takes over what was read, and refuses what no version has written.
func (r *Record) fill(results *wire.Results) error {
	room := &results.Room
	r.ArgDigests, r.Outcome = room.Bytes[1], Outcome(room.Text)
	if len(room.Bytes[0]) != len(r.Fingerprint) || !r.Outcome.known() {
		return fmt.Errorf("dedup: a record has outcome %q and a fingerprint of %d bytes, which this version of the library has not written", room.Text, len(room.Bytes[0]))
	}
	copy(r.Fingerprint[:], room.Bytes[0])
	if r.Tombstone = room.Maybe == nil; !r.Tombstone {
		r.Result = *room.Maybe
	}
	r.CreatedAt, r.ExpiresAt, r.ForgetAt, r.SeenAt = room.Times[0], room.Times[1], room.Times[2], room.Times[3]
	r.SentAt = results.SentAt
	return nil
}
