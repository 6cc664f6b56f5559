package httpdedup

import (
	"net/http"
	"time"

	"github.com/tooldedup/dedup"
)

// StripeOptions returns Options, without a Scope, that follow Stripe's rules for idempotent
// requests. The answer repeats the key and marks a replay with Idempotent-Replayed. A key with
// other parameters gets 400 with an idempotency_error; a key that is running gets 409 with
// idempotency_key_in_use. Errors are {"error": {"type", "code", "message"}}. A key is new again
// after 24 hours.
//
// It differs from Stripe in three ways. A key is required. A 5xx is not kept: nothing was done, and
// a retry runs. A 4xx is kept only after [Final].
func StripeOptions() Options {
	return Options{
		ReplayedHeader: "Idempotent-Replayed", EchoKey: true, ReusedStatus: http.StatusBadRequest,
		Retention: dedup.Retention{Result: 24 * time.Hour, Tombstone: -1},
		Problem: func(p Problem) any {
			e := map[string]string{"type": "invalid_request_error", "message": p.Detail}
			switch {
			case p.Name == kindKeyReused.Name:
				e["type"] = "idempotency_error"
			case p.Name == kindInFlight.Name:
				e["code"] = "idempotency_key_in_use"
			case p.Status >= http.StatusInternalServerError:
				e["type"] = "api_error"
			}
			return map[string]any{"error": e}
		},
	}
}

// ACPOptions returns Options, without a Scope, that follow the Agentic Commerce Protocol's rules
// for Idempotency-Key (its SEP 120). The answer repeats the key and marks a replay with
// Idempotent-Replayed. The errors are 400 idempotency_key_required, 409 idempotency_in_flight with
// Retry-After, and 422 idempotency_conflict, as {"type", "code", "message"}. A 5xx is not kept. A
// key is new again after 24 hours.
//
// It differs in two ways. A 4xx is kept only after [Final]; any other 4xx was rolled back, and a
// retry runs. A key that comes again for another session of the same route is a conflict; in the
// protocol it is a new request.
func ACPOptions() Options {
	return Options{
		ReplayedHeader: "Idempotent-Replayed", EchoKey: true,
		Retention: dedup.Retention{Result: 24 * time.Hour, Tombstone: -1},
		Problem: func(p Problem) any {
			e := map[string]string{"type": "invalid_request", "code": "invalid", "message": p.Detail}
			switch {
			case p.Name == kindMissingKey.Name:
				e["code"] = "idempotency_key_required"
			case p.Name == kindInFlight.Name:
				e["code"] = "idempotency_in_flight"
			case p.Name == kindKeyReused.Name:
				e["code"] = "idempotency_conflict"
			case p.Status == http.StatusServiceUnavailable:
				e["type"], e["code"] = "service_unavailable", p.Name
			case p.Status >= http.StatusInternalServerError:
				e["type"], e["code"] = "processing_error", p.Name
			}
			return e
		},
	}
}
