package dedup

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// outcome is how a call ended, as it stands in the table.
type outcome string

const (
	outcomeDone    outcome = "done"    // result is the answer
	outcomeRefused outcome = "refused" // result is the refusal
	outcomeBroken  outcome = "broken"  // the effect ended its own transaction
	outcomeClaimed outcome = "claimed" // ClaimFirst, before its COMMIT
)

func (o outcome) known() bool {
	switch o {
	case outcomeDone, outcomeRefused, outcomeBroken, outcomeClaimed:
		return true
	}
	return false
}

// record is a row of tool_dedup without its identity.
type record struct {
	fingerprint Fingerprint
	argDigests  []byte
	outcome     outcome
	result      string
	tombstone   bool // result has been dropped
	createdAt   time.Time
	expiresAt   time.Time
	forgetAt    time.Time
	// seenAt is the database's clock when the row was read. All judgements of
	// age compare times of this one clock.
	seenAt time.Time
}

// read reads the answer of statements.lookup. It reports whether there was a
// row.
func (r *record) read(a *answers) (bool, error) {
	row := &a.row
	row.fingerprint, row.argDigests = r.fingerprint[:0], nil
	err := a.scan(row.dest()...)
	if err == pgx.ErrNoRows {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.fill(row)
}

// dest is where the columns of statements.lookup go.
func (row *recordRow) dest() []any {
	row.columns = [...]any{&row.fingerprint, &row.argDigests, &row.outcome, &row.result, &row.times[0], &row.times[1], &row.times[2], &row.times[3]}
	return row.columns[:]
}

// fill takes over what was read, and refuses what no version has written.
func (r *record) fill(row *recordRow) error {
	r.argDigests, r.outcome = row.argDigests, outcome(row.outcome)
	if len(row.fingerprint) != len(r.fingerprint) || !r.outcome.known() {
		return fmt.Errorf("dedup: a record has outcome %q and a fingerprint of %d bytes, which this version of the library has not written", row.outcome, len(row.fingerprint))
	}
	copy(r.fingerprint[:], row.fingerprint)
	if r.tombstone = row.result == nil; !r.tombstone {
		r.result = *row.result
	}
	r.createdAt, r.expiresAt, r.forgetAt, r.seenAt = row.times[0], row.times[1], row.times[2], row.times[3]
	return nil
}

// recordRow is a record as it is read. It stands in a pipeline, because what is
// scanned into is on the heap, and there is mostly no record.
type recordRow struct {
	fingerprint, argDigests []byte
	outcome                 string
	result                  *string
	times                   [4]time.Time // created_at, expires_at, forget_at, and now
	locked                  bool         // read with it
	columns                 [8]any
}

// bear gives a record that req has just written its times. Postgres has added the
// same ages to the same moment.
func (r *record) bear(at time.Time, req *request) {
	r.createdAt, r.seenAt = at, at
	r.expiresAt, r.forgetAt = at.Add(req.retention.keep()), at.Add(req.retention.forget())
}

// forgotten tells whether the identity may be used anew.
func (r *record) forgotten() bool { return !r.seenAt.Before(r.forgetAt) }

// expired tells whether the result may no longer be replayed.
func (r *record) expired() bool { return r.tombstone || !r.seenAt.Before(r.expiresAt) }

// isBroken tells whether the effect ended its own transaction. A claim that can
// be seen was committed by its own effect.
func (r *record) isBroken() bool { return r.outcome == outcomeBroken || r.outcome == outcomeClaimed }

// age is the time since the first call.
func (r *record) age() time.Duration { return r.seenAt.Sub(r.createdAt) }

// judge says what a record of req's identity answers: nil when its result is
// the answer, else the error that is. Misuse comes before age, so that a reused
// key is told as long as the identity is remembered.
func (r *record) judge(req *request) error {
	switch {
	case r.isBroken():
		return &BrokenError{Scope: req.scope, Tool: req.tool, KeyHash: KeyHash(req.key), At: r.createdAt}
	case r.fingerprint != req.fingerprint:
		changed, complete := changedArgs(r.argDigests, req.argDigests)
		return &KeyReusedError{
			Scope: req.scope, Tool: req.tool, KeyHash: KeyHash(req.key),
			First: r.fingerprint, Now: req.fingerprint,
			FirstAt: r.createdAt, Changed: changed, Complete: complete,
		}
	case r.expired():
		return &ExpiredError{
			Scope: req.scope, Tool: req.tool, KeyHash: KeyHash(req.key),
			FirstAt: r.createdAt, ExpiredAt: r.expiresAt, ForgetAt: r.forgetAt,
		}
	case r.outcome == outcomeRefused:
		return decodeRefusal(r.result, r.createdAt)
	default:
		return nil
	}
}
