package httpdedup

import (
	"net/http"
	"time"

	"github.com/tooldedup/dedup"
)

// StripeOptions returns Options, without a Scope, by which clients of Stripe's rules for
// idempotent requests find what they know: the key as it came and Idempotent-Replayed with the
// answer, 400 with an idempotency_error where a key comes with other parameters, 409 with
// idempotency_key_in_use, errors as {"error": {"type", "code", "message"}}, and a key
// that is new again after 24 hours.
//
// It differs from Stripe in three ways. A key is required. An answer of 5xx is not kept:
// nothing was done, and a retry runs. An answer of 4xx is kept after [Final] only.
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

// ACPOptions returns Options, without a Scope, that follow the Agentic Commerce Protocol's
// rules for Idempotency-Key (its SEP 120): the key as it came and Idempotent-Replayed with the
// answer; 400 idempotency_key_required, 409 idempotency_in_flight with Retry-After, and 422
// idempotency_conflict, as {"type", "code", "message"}; no answer of 5xx is kept, and a key is
// new again after 24 hours.
//
// It differs in two ways. An answer of 4xx is kept after [Final] only; any other was
// rolled back, and a retry runs. A key that comes again for another session of
// the same route is a conflict, where the protocol has another request.
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
