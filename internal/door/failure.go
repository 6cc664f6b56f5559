// Package door holds what the doors say alike: httpdedup to clients of HTTP, and mcpdedup to
// models. It says what an error means to whoever called, where a call stands, and in which words
// a client is told. How that is sent is up to each door.
package door

import (
	"context"
	"errors"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Code names why a call has no result. The doors have the same codes.
type Code string

// The codes of errors of packages dedup and external, and of callers and tools that are not known.
const (
	KeyRequired      Code = "key_required"
	KeyInvalid       Code = "key_invalid"
	KeyReused        Code = "key_reused"
	ArgumentsInvalid Code = "arguments_invalid"
	Refused          Code = "refused"
	Expired          Code = "expired"
	Blocked          Code = "blocked"
	Parked           Code = "parked"
	InFlight         Code = "in_flight"
	OutcomeUnknown   Code = "outcome_unknown"
	Unavailable      Code = "unavailable"
	Timeout          Code = "timeout"
	Failed           Code = "failed"
	Unidentified     Code = "unidentified"
	Unclassified     Code = "unclassified"
)

// Failure is an error of a call, as its client may know it.
type Failure struct {
	Code Code
	// Record says when the call was answered, and what differs now. KeyReused and Expired have it.
	Record *dedup.Error
	// Refusal is that of the tool. Refused has it.
	Refusal *dedup.RefusedError
	// Operation is what a person looks into. Parked has it.
	Operation external.Operation
	// Reason says what is wrong with the arguments, as a sentence. ArgumentsInvalid has it.
	Reason string
}

// FailureOf says what an error of a call of a tool means. A tool that makes calls of its own may
// return the errors of those. Their keys, arguments and times are not the client's, so that
// their codes are Failed.
func FailureOf(tool string, err error) Failure {
	var (
		record  *dedup.Error
		refusal *dedup.RefusedError
		parked  *external.ParkedError
		misfit  interface { // *tool.ArgumentError, of a package above this one
			error
			ForClient() string
		}
	)
	own := errors.As(err, &record) && record.Tool == tool
	switch {
	case errors.As(err, &misfit):
		return Failure{Code: ArgumentsInvalid, Reason: misfit.ForClient()}
	case own && record.Answer == dedup.ErrKeyReused:
		return Failure{Code: KeyReused, Record: record}
	case errors.As(err, &refusal):
		return Failure{Code: Refused, Refusal: refusal}
	case own && record.Answer == dedup.ErrExpired:
		return Failure{Code: Expired, Record: record}
	case errors.Is(err, dedup.ErrBroken):
		return Failure{Code: Blocked}
	case errors.As(err, &parked):
		return Failure{Code: Parked, Operation: parked.Operation}
	case errors.Is(err, dedup.ErrOutcomeUnknown): // before what kept it from being found out
		return Failure{Code: OutcomeUnknown}
	case errors.Is(err, dedup.ErrInFlight):
		return Failure{Code: InFlight}
	case !dedup.IsRetryable(err):
		return misuse(err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Failure{Code: Timeout}
	default:
		return Failure{Code: Unavailable}
	}
}

// misuse says what is wrong with the call itself, if that is what the error says.
func misuse(err error) Failure {
	var invalid *dedup.InvalidError
	if !errors.As(err, &invalid) {
		return Failure{Code: Failed}
	}
	switch invalid.Field {
	case "Key":
		if invalid.Missing {
			return Failure{Code: KeyRequired}
		}
		return Failure{Code: KeyInvalid}
	case "Args", "in": // in is the input of an external tool
		return Failure{Code: ArgumentsInvalid, Reason: "The arguments " + invalid.Reason + "."}
	default:
		return Failure{Code: Failed}
	}
}
