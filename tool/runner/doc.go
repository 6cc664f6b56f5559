// Package runner is for the side that calls tools: an agent's loop, an orchestrator, a service's
// client. It repeats a call that failed, as often as the tool's class allows, and with one key for
// all tries:
//
//	call := runner.Call{Tool: "create_ticket", Class: tool.Write, Key: key}
//	ticket, err := runner.Do(ctx, call, func(ctx context.Context) (Ticket, error) {
//		return client.CreateTicket(ctx, in) // over HTTP, with a Transport
//	})
//
// The called side makes one effect of all calls with one key, with package dedup. Without a key, a
// write that failed must not be called again: perhaps only its answer was lost. So the rule here
// is: no key, no retry.
//
// # Tries
//
// A tool of a known class is tried three times; an Unclassified one once. All tries of a write have
// one key. The pause before the second try is random, between 0 and one second. The maximum doubles
// with each further pause. Call.Tries and Call.Pause change both. A server's Retry-After comes
// first, and the random part follows it. The numbers are common practice of agent platforms, not
// measurements.
//
// An Idempotent tool is repeated without a key, as HTTP repeats PUT (RFC 9110, section 9.2.2). A
// late repeat can undo a later write of another caller. If that matters, give the call a key. An
// External tool takes keys if package external runs it: the same call, made again, asks for the
// state of the first one. Another provider's tool that takes no key is Unclassified.
//
// # The key
//
// The key is made once, before the first try. Save it before that, best in a [Plan]. A process that
// loads a plan sets Call.Resumed. The context carries the key ([WithKey], [KeyFrom]). [Transport]
// copies it into the header Idempotency-Key, and [PutMeta] into the _meta of an MCP request. The
// ClientKey of packages grpcdedup and connectdedup sends it over gRPC and Connect. Any other client
// sends what KeyFrom returns.
//
// A layer that finds a key in the context does not make another. If the request has a different key
// already, such as one that generated code makes on every try, Transport, PutMeta and ClientKey
// refuse it and send nothing.
//
// # Errors
//
//	error                  returned by                 call again with the same key?
//	*GaveUpError           Do                          GaveUpError.Retryable tells
//	*dedup.InvalidError    Do Transport PutMeta Plan   no: repair the call, or the plan
//	*StatusError           ResponseError, ResultError  by its status
//	the tool's own         Do                          no: it is the answer
//	*external.ParkedError  Do, in a *GaveUpError       later, after an operator's verdict; never with a new key
//	dedup.ErrBroken        Do, in a *GaveUpError       the same; ResultError returns it without Do
//
// A *GaveUpError also matches the reason why Do ended and the last try's error. It matches
// [dedup.ErrOutcomeUnknown] if a try may have taken effect and there is a key to call again with.
//
// # Circuit breakers and budgets
//
// Circuit breakers and budgets concern a server and all its callers, not one call, so this package
// has none. Put them inside the try, so that they see every try. With failsafe-go:
//
//	tries := 0
//	ticket, err := runner.Do(ctx, call, func(ctx context.Context) (Ticket, error) {
//		if tries++; tries > 1 && !retries.TryAcquirePermit() {
//			return Ticket{}, ratelimiter.ErrExceeded
//		}
//		return failsafe.With(breaker).WithContext(ctx).Get(func() (Ticket, error) {
//			return create(ctx, title)
//		})
//	})
//
// Let the breaker count the errors for which [IsRetryable] is true: an answer is no reason to stop.
// Do treats circuitbreaker.ErrOpen and ratelimiter.ErrExceeded as answers and ends at once. It
// returns a *GaveUpError if an earlier try left the outcome open.
package runner
