package door_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
)

// TestFailureOf holds every error that a call may end with to its code. What each door makes of a
// code stands beside the door: TestExplain of httpdedup and TestTexts of mcpdedup.
func TestFailureOf(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	server := &pgconn.PgError{Code: "23505"}
	misfit := &tool.ArgumentError{Tool: "pay", Field: "order", Reason: "names no order"}
	call := func(field, reason string) error {
		return &dedup.InvalidError{What: "call", Field: field, Reason: reason}
	}
	for name, c := range map[string]struct {
		err  error
		code door.Code
	}{
		"Reused":            {&dedup.Error{Kind: dedup.ErrKeyReused, Tool: "pay", CreatedAt: at}, door.KeyReused},
		"ReusedInside":      {&dedup.Error{Kind: dedup.ErrKeyReused, Tool: "inner", CreatedAt: at}, door.Failed},
		"Expired":           {fmt.Errorf("paying: %w", &dedup.Error{Kind: dedup.ErrExpired, Tool: "pay", CreatedAt: at}), door.Expired},
		"ExpiredInside":     {&dedup.Error{Kind: dedup.ErrExpired, Tool: "inner", CreatedAt: at}, door.Failed},
		"Refused":           {&dedup.RefusedError{Message: "no"}, door.Refused},
		"Broken":            {&dedup.Error{Kind: dedup.ErrBroken, Err: context.Canceled}, door.Blocked},
		"Parked":            {&external.ParkedError{Operation: external.Operation{ChangedAt: at}}, door.Parked},
		"Unknown":           {&dedup.Error{Kind: dedup.ErrOutcomeUnknown, Err: fmt.Errorf("%w (%w)", server, context.Canceled)}, door.OutcomeUnknown},
		"UnknownOfMisuse":   {&dedup.Error{Kind: dedup.ErrOutcomeUnknown, Err: call("Args", "are too long")}, door.OutcomeUnknown},
		"InFlight":          {&dedup.Error{Kind: dedup.ErrInFlight}, door.InFlight},
		"InFlightAtItsEnd":  {&dedup.Error{Kind: dedup.ErrInFlight, Err: context.DeadlineExceeded}, door.InFlight},
		"Exhausted":         {&dedup.Error{Kind: dedup.ErrAttemptsExhausted, Err: server}, door.Unavailable},
		"ExhaustedByTime":   {&dedup.Error{Kind: dedup.ErrAttemptsExhausted, Err: context.DeadlineExceeded}, door.Timeout},
		"Transient":         {&pgconn.PgError{Code: "40001"}, door.Unavailable},
		"Demoted":           {&pgconn.PgError{Code: "25006"}, door.Unavailable},
		"Restart":           {&dedup.Error{Kind: dedup.ErrRestartTx}, door.Unavailable},
		"Deadline":          {fmt.Errorf("paying: %w", context.DeadlineExceeded), door.Timeout},
		"Cancelled":         {context.Canceled, door.Timeout},
		"NoKey":             {&dedup.InvalidError{What: "call", Field: "Key", Missing: true, Reason: "is gone"}, door.KeyRequired},
		"BadKey":            {call("Key", "has a control character"), door.KeyInvalid},
		"BadArguments":      {call("Args", "are not usable as JSON"), door.ArgumentsInvalid},
		"BadInput":          {call("in", "has a member too many"), door.ArgumentsInvalid},
		"BadScope":          {call("Scope", "is empty"), door.Failed},
		"UnknownOfMisfit":   {&dedup.Error{Kind: dedup.ErrOutcomeUnknown, Err: misfit}, door.OutcomeUnknown},
		"BrokenOfMisfit":    {&dedup.Error{Kind: dedup.ErrBroken, Err: misfit}, door.Blocked},
		"ExhaustedOfMisfit": {&dedup.Error{Kind: dedup.ErrAttemptsExhausted, Err: misfit}, door.Unavailable},
		"ControlOfMisfit":   {&dedup.InvalidError{What: "effect", Err: misfit}, door.Failed},
		"Misfit":            {misfit, door.ArgumentsInvalid},
		"InnerKey":          {ofEffect{call("Key", "is empty")}, door.Failed},
		"InnerArguments":    {ofEffect{call("Args", "are not usable as JSON")}, door.Failed},
		"EndedItself":       {&dedup.InvalidError{What: "effect", Reason: "ended its transaction", Err: context.Canceled}, door.Failed},
		"Schema":            {&dedup.Error{Kind: dedup.ErrSchema}, door.Failed},
		"TheToolsOwn":       {errors.New("no room"), door.Failed},
		"OfTheDatabase":     {server, door.Failed},
		"FinalWithoutCalls": {dedup.Final(errors.New("declined")), door.Failed},
		"FinalTransient":    {dedup.Final(&pgconn.PgError{Code: "40001"}), door.Unavailable},
	} {
		f := door.FailureOf("pay", c.err)
		require.Equal(t, c.code, f.Code, name)
		require.Equal(t, c.code == door.KeyReused || c.code == door.Expired, f.Record != nil, name)
		require.Equal(t, c.code == door.Refused, f.Refusal != nil, name)
		require.Equal(t, c.code == door.ArgumentsInvalid, f.Reason != "", name)
		require.Equal(t, c.code == door.Parked, !f.Operation.ChangedAt.IsZero(), name)
		want := map[door.Code]door.State{door.InFlight: door.StateRunning, door.Parked: door.StateParked}[c.code]
		require.Equal(t, want, f.State(), name)
	}
}

// ofEffect is an effect's error, as package dedup marks it.
type ofEffect struct{ error }

func (e ofEffect) Unwrap() error  { return e.error }
func (e ofEffect) OfEffect() bool { return true }

func TestStateOf(t *testing.T) {
	t.Parallel()
	open := func(s external.State) external.Status {
		return external.Status{State: s, Operation: external.Operation{State: s}}
	}
	recorded := func(s dedup.State) external.Status {
		return external.Status{Operation: external.Operation{State: external.StateDone}, Record: dedup.Status{State: s}}
	}
	for want, statuses := range map[door.State][]external.Status{
		door.StatePending:  {open(external.StatePending)},
		door.StateRunning:  {open(external.StateRunning), recorded(dedup.StateInFlight)},
		door.StateParked:   {open(external.StateParked), {State: external.StateParked, Operation: external.Operation{State: external.StateDone}}},
		door.StateDone:     {recorded(dedup.StateDone)},
		door.StateRefused:  {recorded(dedup.StateRefused)},
		door.StateExpired:  {recorded(dedup.StateExpired)},
		door.StateBroken:   {recorded(dedup.StateBroken), {State: external.StateParked, Record: dedup.Status{State: dedup.StateBroken}}},
		door.StateNotFound: {{}, recorded(dedup.StateNotFound)},
	} {
		for _, s := range statuses {
			require.Equal(t, want, door.StateOf(s), "%+v", s)
		}
		wait := want.RetryAfter(7 * time.Second)
		switch want {
		case door.StatePending, door.StateRunning:
			require.Equal(t, 7*time.Second, wait)
		case door.StateParked:
			require.Greater(t, wait, time.Minute)
		default:
			require.Zero(t, wait)
		}
	}
}
