// Package door has the common parts of the doors, the packages that serve clients or models. It
// converts errors to codes for clients, determines the state of a call, and has the texts for
// clients. Each door sends them in its own way.
package door

import (
	"context"
	"errors"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Code is the reason why a call has no result. The doors have the same codes.
type Code string

// The codes of errors of packages dedup and external, and of unknown callers and tools.
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

// Failure is an error of a call with the details that its client may see.
type Failure struct {
	Code Code
	// Record has the time of the recorded call and the changed arguments, in KeyReused and Expired.
	Record *dedup.Error
	// Refusal is the refusal of the tool, in Refused.
	Refusal *dedup.RefusedError
	// Operation is the operation that a person has to examine, in Parked.
	Operation external.Operation
	// Reason is a sentence on the invalid arguments, in ArgumentsInvalid.
	Reason string
}

// FailureOf returns the failure of a tool call that returned err. A tool that makes further calls
// may return their errors. Their keys, arguments and times do not belong to the client, so their
// code is Failed. Whether something was done has precedence over what is wrong with the arguments.
func FailureOf(tool string, err error) Failure {
	var (
		record  *dedup.Error
		refusal *dedup.RefusedError
		parked  *external.ParkedError
	)
	own := errors.As(err, &record) && record.Tool == tool
	switch {
	case own && record.Kind == dedup.ErrKeyReused:
		return Failure{Code: KeyReused, Record: record}
	case errors.As(err, &refusal):
		return Failure{Code: Refused, Refusal: refusal}
	case own && record.Kind == dedup.ErrExpired:
		return Failure{Code: Expired, Record: record}
	case errors.Is(err, dedup.ErrBroken):
		return Failure{Code: Blocked}
	case errors.As(err, &parked):
		return Failure{Code: Parked, Operation: parked.Operation}
	case errors.Is(err, dedup.ErrOutcomeUnknown): // before the fault that hides the outcome
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

// misuse returns the failure of an invalid call. It is Failed if the program is to blame: an effect
// misused its transaction, or made an invalid call of its own.
func misuse(err error) Failure {
	var (
		invalid *dedup.InvalidError
		misfit  interface { // *tool.ArgumentError, of a package above this one
			error
			ForClient() string
		}
		effects interface { // as package dedup marks the error of an effect
			error
			OfEffect() bool
		}
	)
	isInvalid := errors.As(err, &invalid)
	switch {
	case isInvalid && invalid.What == "effect":
		return Failure{Code: Failed}
	case errors.As(err, &misfit):
		return Failure{Code: ArgumentsInvalid, Reason: misfit.ForClient()}
	case !isInvalid, errors.As(err, &effects):
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
