package runner_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/tool"
	"github.com/tooldedup/dedup/tool/runner"
)

// A try that may have taken effect is reported, whatever the later tries return.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	unreached := get(opError("dial", syscall.ECONNREFUSED))
	denied := &runner.StatusError{Code: 401}
	parked := &external.ParkedError{Operation: external.Operation{Tool: "t", Note: "no answer"}}
	inFlight := &dedup.Error{Kind: dedup.ErrInFlight, Err: errors.New("MaxWait has passed")}
	blocked := runner.ResultError(true, map[string]any{door.MetaError: string(door.Blocked)})
	accepted := &runner.StatusError{Code: 202, RetryAfter: time.Second}
	for name, test := range map[string]struct {
		class   tool.Class
		errs    []error
		unknown bool
		asIs    bool // the last error is returned unchanged
	}{
		"Unreached":             {class: tool.Write, errs: []error{unreached, unreached, unreached}},
		"DNS":                   {class: tool.Write, errs: []error{opError("dial", &net.DNSError{IsTemporary: true}), unreached, unreached}},
		"TooMany":               {class: tool.Write, errs: []error{&runner.StatusError{Code: 429}, &runner.StatusError{Code: 425}, unreached}},
		"NothingCommitted":      {class: tool.Write, errs: []error{&dedup.Error{Kind: dedup.ErrAttemptsExhausted}, &dedup.Error{Kind: dedup.ErrRestartTx}, unreached}},
		"Overloaded":            {class: tool.Write, errs: []error{&runner.StatusError{Code: 503}, unreached, unreached}, unknown: true},
		"ProxyTimeout":          {class: tool.Write, errs: []error{&runner.StatusError{Code: 524}, unreached, unreached}, unknown: true},
		"CommittedOrNot":        {class: tool.Write, errs: []error{&dedup.Error{Kind: dedup.ErrOutcomeUnknown}, unreached, unreached}, unknown: true},
		"InFlight":              {class: tool.Write, errs: []error{&runner.StatusError{Code: 409, RetryAfter: 1}, unreached, unreached}, unknown: true},
		"TwinInFlight":          {class: tool.Write, errs: []error{dedup.ErrInFlight, unreached, unreached}, unknown: true},
		"CutOnce":               {class: tool.Write, errs: []error{unreached, io.EOF, unreached}, unknown: true},
		"ServerError":           {class: tool.Write, errs: []error{unreached, unreached, errBusy}, unknown: true},
		"TimedOut":              {class: tool.Write, errs: []error{context.DeadlineExceeded, unreached, unreached}, unknown: true},
		"SaysRetryable":         {class: tool.Write, errs: []error{own{retryable: true}, unreached, unreached}, unknown: true},
		"UnclassifiedUnreached": {errs: []error{unreached}},
		"External":              {class: tool.External, errs: []error{io.EOF, io.EOF, io.EOF}, unknown: true},
		"ExternalInFlight":      {class: tool.External, errs: []error{inFlight, inFlight, inFlight}, unknown: true},
		"Accepted":              {class: tool.External, errs: []error{accepted, accepted, accepted}, unknown: true},
		"Parked":                {class: tool.External, errs: []error{parked}, unknown: true},
		"ParkedAfterInFlight":   {class: tool.Destructive, errs: []error{inFlight, parked}, unknown: true},
		"Broken":                {class: tool.Write, errs: []error{&dedup.Error{Kind: dedup.ErrBroken}}, unknown: true},
		"BlockedOverMCP":        {class: tool.Write, errs: []error{blocked}, unknown: true},
		"BlockedAfterUnreached": {class: tool.Destructive, errs: []error{unreached, blocked}, unknown: true},
		"UnclassifiedBlocked":   {errs: []error{blocked}, unknown: true},
		"Unclassified":          {errs: []error{io.EOF}, unknown: true},
		"ReadOnly":              {class: tool.ReadOnly, errs: []error{io.EOF, io.EOF, io.EOF}},
		"InnerUnknown":          {class: tool.Write, errs: []error{&runner.GaveUpError{OutcomeUnknown: true, Key: "k"}, nil}, asIs: true, unknown: true},
		"AnswerAfterUnreached":  {class: tool.Write, errs: []error{unreached, denied}, asIs: true},
		"AnswerAfterCut":        {class: tool.Write, errs: []error{io.EOF, denied}, unknown: true},
		"RefusalSettles":        {class: tool.Write, errs: []error{io.EOF, &dedup.RefusedError{}}, asIs: true},
		"ExpirySettles":         {class: tool.Write, errs: []error{io.EOF, &dedup.Error{Kind: dedup.ErrExpired}}, asIs: true},
		"ReuseDoesNotSettle":    {class: tool.Write, errs: []error{io.EOF, &dedup.Error{Kind: dedup.ErrKeyReused}}, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := failing(test.errs...)
			err := do(t, runner.Call{Tool: "t", Class: test.class}, s)
			last := test.errs[len(s.keys)-1]
			if test.asIs {
				require.Same(t, last, err)
				return
			}
			var gaveUp *runner.GaveUpError
			require.ErrorAs(t, err, &gaveUp)
			require.ErrorIs(t, err, last)
			require.Equal(t, test.unknown, gaveUp.OutcomeUnknown)
			trusted := gaveUp.Key != "" && test.class != tool.Unclassified
			require.Equal(t, test.unknown && trusted, errors.Is(err, dedup.ErrOutcomeUnknown))
		})
	}
}

// An outer Do repeats a call that an inner Do gave up only if the repeat is harmless.
func TestGaveUpIsRetryable(t *testing.T) {
	t.Parallel()
	denied := &runner.StatusError{Code: 401}
	for name, test := range map[string]struct {
		call runner.Call
		errs []error
		want bool
	}{
		"Write":                {runner.Call{Class: tool.Write}, []error{io.EOF, io.EOF, io.EOF}, true},
		"WriteTriedOnce":       {runner.Call{Class: tool.Write, Tries: 1}, []error{io.EOF}, true},
		"WriteLeftOpen":        {runner.Call{Class: tool.Write}, []error{io.EOF, denied}, true},
		"WriteReused":          {runner.Call{Class: tool.Write}, []error{io.EOF, &dedup.Error{Kind: dedup.ErrKeyReused}}, false},
		"Read":                 {runner.Call{Class: tool.ReadOnly}, []error{io.EOF, io.EOF, io.EOF}, true},
		"Unclassified":         {runner.Call{Key: "k"}, []error{io.EOF}, false},
		"External":             {runner.Call{Class: tool.External}, []error{io.EOF, io.EOF, io.EOF}, true},
		"ExternalInFlight":     {runner.Call{Class: tool.External}, []error{dedup.ErrInFlight, dedup.ErrInFlight, dedup.ErrInFlight}, true},
		"ExternalParked":       {runner.Call{Class: tool.External}, []error{&external.ParkedError{}}, false},
		"Broken":               {runner.Call{Class: tool.Write}, []error{&dedup.Error{Kind: dedup.ErrBroken}}, false},
		"ExternalThatMayRetry": {runner.Call{Class: tool.External, Tries: 2}, []error{io.EOF, io.EOF}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.call.Tool = "t"
			err := do(t, test.call, failing(test.errs...))
			var gaveUp *runner.GaveUpError
			require.ErrorAs(t, err, &gaveUp)
			require.Equal(t, test.want, runner.IsRetryable(err))
		})
	}
}

// The first process's call may have taken effect, whatever this process is told.
func TestDoResumes(t *testing.T) {
	t.Parallel()
	denied := &runner.StatusError{Code: 401}
	err := do(t, runner.Call{Tool: "t", Class: tool.Write, Key: "k", Resumed: true}, failing(denied))
	require.ErrorIs(t, err, dedup.ErrOutcomeUnknown)
	require.ErrorIs(t, err, denied)
	require.Same(t, denied, do(t, runner.Call{Tool: "t", Class: tool.ReadOnly, Key: "k", Resumed: true}, failing(denied)))
}

// The OutcomeUnknown of a Do inside a try counts: a ReadOnly call leaves nothing open.
func TestOutcomeOfAnInnerDo(t *testing.T) {
	t.Parallel()
	for class, unknown := range map[tool.Class]bool{tool.ReadOnly: false, tool.Write: true} {
		inner := runner.Call{Tool: "t", Class: class, Pause: 1}
		outer := runner.Call{Tool: "t", Class: tool.Write, Pause: 1}
		_, err := runner.Do(t.Context(), outer, func(ctx context.Context) (string, error) {
			return runner.Do(ctx, inner, failing(io.EOF, io.EOF, io.EOF).try)
		})
		var gaveUp *runner.GaveUpError
		require.ErrorAs(t, err, &gaveUp)
		require.Equal(t, 3, gaveUp.Tries)
		require.Equal(t, unknown, gaveUp.OutcomeUnknown, class)
	}
}
