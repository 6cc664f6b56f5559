package dedup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/table"
)

// State is what [Deduper.Lookup] finds of an identity.
type State string

const (
	// StateNotFound: no record and no twin in flight. The call has not run, or
	// it ran so long ago that it is forgotten.
	StateNotFound State = "not found"
	// StateInFlight: a call is running right now. No row says so; its lock or
	// claim does.
	StateInFlight State = "in flight"
	// StateDone: the call ran and its result is here.
	StateDone State = "done"
	// StateRefused: the tool refused and the refusal is here.
	StateRefused State = "refused"
	// StateExpired: the call ran and its result is gone.
	StateExpired State = "expired"
	// StateBroken: the effect ended its own transaction; see ErrBroken.
	StateBroken State = "broken"
)

// Status is what is known of an identity.
type Status struct {
	State State
	// Result is the recorded JSON text, in StateDone.
	Result json.RawMessage
	// Refusal is the recorded refusal, in StateRefused.
	Refusal *RefusedError
	// Fingerprint is that of the first call's arguments, where there is a
	// record.
	Fingerprint Fingerprint
	// CreatedAt, ExpiresAt and ForgetAt are the record's times, zero without a
	// record, and Now the time of the look-up, all by the database's clock.
	CreatedAt, ExpiresAt, ForgetAt, Now time.Time
}

// Lookup reads the state of a call without making it. It takes one round trip. On servers other than
// plain PostgreSQL it inserts a claim and rolls it back, because only a claim finds a twin in flight.
//
// StateNotFound is certain: the call is not committed and will not be, because a call holds its lock
// or claim until its commit has ended (each of the first 256 DoTx of one transaction). The Deduper
// that looks needs the call's Schema.
//
// The error is an [ErrInvalid] or the database's: 25006 on a standby, which may lack the record or
// still have one that was deleted on the primary.
func (d *Deduper) Lookup(ctx context.Context, scope, tool, key string) (Status, error) {
	if err := d.usable(ctx); err != nil {
		return Status{}, err
	}
	id := table.Identity{Scope: scope, Tool: tool, Key: key}
	if err := checkIdentity(id); err != nil {
		return Status{}, annotate(id, err)
	}
	var seen table.Seen
	if err := d.look(ctx, d.observer(id), &seen, (*table.Table).Probe); err != nil {
		return Status{}, annotate(id, fmt.Errorf("dedup: looking up: %w", d.withHint(err)))
	}
	switch {
	case seen.Found:
		return status(&seen.Record)
	case seen.Busy:
		return Status{State: StateInFlight, Now: seen.At}, nil
	default:
		return Status{State: StateNotFound, Now: seen.At}, nil
	}
}

// observer is the entry of somebody who is not going to make the call.
func (d *Deduper) observer(id table.Identity) *table.Entry {
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
