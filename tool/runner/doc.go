// Package runner is the side that calls tools: an agent's loop, an orchestrator,
// a service's client. It tries again what may be tried again, as often as the
// tool's class allows, and with one key for all tries:
//
//	call := runner.Call{Tool: "create_ticket", Class: tool.Write, Key: key}
//	ticket, err := runner.Do(ctx, call, func(ctx context.Context) (Ticket, error) {
//		return client.CreateTicket(ctx, in) // over HTTP, with a Transport
//	})
//
// The other side makes one effect of all calls with one key; package dedup does
// that. Without a key there, a write that failed must not be called again, because
// its answer may be all that was lost. So the rule here is: no key, no retry.
//
// # Tries
//
// A tool of a known class is tried three times, writes with one key, and others once. Before the second
// try is a pause of up to a second, and each further one may be twice as long. It is drawn evenly from
// nothing to its bound. Call.Tries and Call.Pause override. A server's Retry-After is a lower bound, on
// top of which comes the draw. The numbers are the practice of agent platforms and not a measurement.
//
// An Idempotent tool is tried again without a key. HTTP has the same rule for PUT (RFC 9110,
// section 9.2.2). Like there, a late repeat can undo what somebody else has written since; where
// that matters, give it a key. An External tool takes keys where package external runs it: the
// same call again asks what became of the first one. One of somebody else's that takes none
// is Unclassified.
//
// # The key
//
// It is made once, before the first try, and best saved with a [Plan] before
// that; who loads one sets Call.Resumed. On its way it travels in the context ([WithKey], [KeyFrom]), from which
// [Transport] puts it into the header Idempotency-Key and [PutMeta] into the _meta
// of an MCP request; any other client sends what KeyFrom returns. A
// layer that finds a key there does not mint another, and one
// that finds two different ones sends nothing.
//
// # Errors
//
//	error                  returned by                 call again with the same key?
//	*GaveUpError           Do                          GaveUpError.Retryable tells
//	*dedup.InvalidError    Do Transport PutMeta Plan   no: repair the call, or the plan
//	*StatusError           ResponseError, ResultError  by its status
//	the tool's own         Do                          no: it is the answer
//	*external.ParkedError  Do, in a *GaveUpError       later, once a person has found out; never with a new key
//
// A *GaveUpError also matches what ended it, what the last try failed with, and, where a try may have
// taken effect and there is a key to call again with, [dedup.ErrOutcomeUnknown].
//
// # Circuit breakers and budgets
//
// These are about a server and all its callers and not about one call, so they
// are the caller's. They belong inside the try, where they see every one of them: module
// examples/failsafe does it with failsafe-go. Do takes circuitbreaker.ErrOpen and
// ratelimiter.ErrExceeded for answers and ends at once, with a *GaveUpError where an earlier try
// left the outcome open.
package runner
