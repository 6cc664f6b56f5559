package dedup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// State is the state of an identity that [Deduper.Lookup] found.
type State string

const (
	// StateNotFound: there is no record, and no twin is in flight. The call never ran, or ran so
	// long ago that it is forgotten.
	StateNotFound State = "not_found"
	// StateInFlight: a call is running. Its lock or claim shows it, not a row.
	StateInFlight State = "in_flight"
	// StateDone: the call ran, and its result is recorded.
	StateDone State = "done"
	// StateRefused: the tool refused, and the refusal is recorded.
	StateRefused State = "refused"
	// StateExpired: the call ran, and its result expired or was never kept.
	StateExpired State = "expired"
	// StateBroken: the effect ended its own transaction; see ErrBroken.
	StateBroken State = "broken"
)

// Status is the state of an identity with its record.
type Status struct {
	State State
	// Result is the recorded JSON text, in StateDone.
	Result json.RawMessage
	// Refusal is the recorded refusal, in StateRefused.
	Refusal *RefusedError
	// Fingerprint is the fingerprint of the first call's arguments, zero without a record.
	Fingerprint Fingerprint
	// CreatedAt, ExpiresAt and ForgetAt are the times of the record, zero without one. ExpiresAt is
	// not after CreatedAt if the answer was not kept. Now is the time of the look-up. All are by
	// the database's clock.
	CreatedAt, ExpiresAt, ForgetAt, Now time.Time
}

// Lookup returns the state of a call without making the call. It takes one round trip. On servers
// other than plain PostgreSQL it takes more if there is no record: it inserts a claim and rolls it
// back, because only a claim detects a twin in flight there.
//
// StateNotFound is certain: the call is not committed, and no call that is under way can still
// commit it. A call holds its lock or claim until its commit ended. In one transaction on plain
// PostgreSQL, that is true for the first 256 calls of DoTx. The Deduper must have the call's
// Schema.
//
// The error is an [ErrInvalid], an [ErrSchema] or an error of the database. On a standby it is
// 25006, because a standby may lack the record or still have one that was deleted on the primary.
func (d *Deduper) Lookup(ctx context.Context, scope, tool, key string) (Status, error) {
	if err := d.outside(ctx); err != nil {
		return Status{}, err
	}
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	if err := checkIdentity(id); err != nil {
		return Status{}, annotate(id, err)
	}
	var seen table.Seen
	if err := d.findTwin(ctx, d.entryOf(id), &seen); err != nil {
		return Status{}, annotate(id, fmt.Errorf("dedup: looking up: %w", d.withHint(err)))
	}
	switch {
	case seen.Found:
		return status(&seen.Record)
	case seen.Busy:
		return Status{State: StateInFlight, Now: seen.Started}, nil
	default:
		return Status{State: StateNotFound, Now: seen.Started}, nil
	}
}

// findTwin looks for a record or a twin. If a row conflicts with a claim and is gone by the look-up
// behind it, a new twin may have begun since, so findTwin looks again. It also looks again, once, if
// the claim was cancelled when its limit was over.
func (d *Deduper) findTwin(ctx context.Context, e *table.Entry, seen *table.Seen) error {
	for n := range maxConflicts + 1 {
		*seen = table.Seen{}
		err := d.look(ctx, e, seen, (*table.Table).FindTwin)
		if err != nil && !(seen.Cancelled && n == 0) || err == nil && !seen.Hidden {
			return err
		}
	}
	return &Error{Kind: ErrSchema, Err: errHidden}
}

// entryOf returns the entry for an identity that is only looked up.
func (d *Deduper) entryOf(id table.Identity) *table.Entry {
	keep, forget := d.opts.Retention.ages()
	return &table.Entry{Identity: id, Lock: id.LockKey(d.opts.Schema), Keep: keep, Forget: forget}
}

func status(r *table.Record) (Status, error) {
	s := Status{
		Fingerprint: r.Fingerprint,
		CreatedAt:   r.CreatedAt, ExpiresAt: r.ExpiresAt, ForgetAt: r.ForgetAt, Now: r.SeenAt,
	}
	switch {
	case r.IsBroken():
		s.State = StateBroken
	case r.Expired():
		s.State = StateExpired
	case r.Outcome == table.Refused:
		s.State = StateRefused
		var err error
		s.Refusal, err = decodeRefusal(r.Result, r.CreatedAt)
		return s, err
	default:
		s.State = StateDone
		s.Result = json.RawMessage(r.Result)
	}
	return s, nil
}
