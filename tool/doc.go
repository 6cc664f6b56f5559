// Package tool makes tools out of functions: named, classified, with typed
// arguments, and guarded by package dedup, so that a write tool without a
// strategy for its repeats cannot be shipped.
//
//	tools := tool.NewRegistry(d, nil)
//	err := tools.Add(
//		tool.Tool[RefundIn, Refund]{
//			Name: "refund_order", Description: "Refund an order in full.",
//			Class: tool.Destructive, Retention: dedup.Retention{Result: 30 * 24 * time.Hour},
//			Run: refundOrder,
//		},
//		tool.Tool[OrderIn, Order]{Name: "get_order", Class: tool.ReadOnly, Run: getOrder},
//	)
//	...
//	answer, err := tools.Invoke(ctx, tool.Invocation{
//		Scope: account, Session: run.ID, Turn: turn, CallID: call.ID,
//		Tool: call.Name, Args: call.Arguments,
//	})
//
// # Arguments
//
// In is a struct, and a call's arguments are a JSON object of its fields: every
// name spelled exactly, none unknown, none twice, and none missing that has
// neither omitempty nor omitzero. A number without a fraction, such as 1.0 or 1e2,
// is an integer. The keys of a map are strings. [Info.InputSchema] says
// the same as a JSON Schema. Tags say what a field means for repeats:
//
//	OrderID string `json:"order_id" dedup:"key"`              // names the intent
//	Note    string `json:"note,omitempty" dedup:"ignore"`     // may differ between tries
//	Card    string `json:"card" dedup:"redact"`               // secret
//
// Fields tagged key are the call's key, whatever key came with the call: one
// string as it is, other types and several fields by [dedup.KeyFromIntent]. A
// time.Time among them is turned to UTC: it counts by its instant. A time in any other
// field is compared as it is spelled, zone included. Fields
// tagged ignore are left out of the fingerprint, for what a model words anew or
// a tracer adds with each try. Fields tagged redact are left out of it as well,
// and of every comparison that is stored: a call that differs in them alone is
// the same call. No error of this package quotes an argument, tagged or not.
//
// # Keys
//
// A call's key is the first of these that there is: its fields tagged key,
// Invocation.Key, and that of its session, turn and id. A Write without any is refused
// with [dedup.ErrInvalid].
//
// The id names the call ([dedup.KeyFromToolCall]) where it can. Where it is empty,
// "null", "None" or the tool's name, and where another call of the message has taken it, the
// arguments do ([dedup.KeyFromToolCallArgs]), without what is tagged ignore or redact. Calls of one
// tool with the same usable id and the same arguments are one call. Whether calls of one message
// share an id, or are equal without one, is only seen by [Registry.InvokeAll]. By Invoke, a call
// whose id another one has taken is refused as [dedup.ErrKeyReused], and two equal calls without
// an id are one.
//
// A tool finds its call in its context: [InvocationOf] has the scope, the key, the session and the
// turn, whichever door the call came through.
//
// # Errors
//
//	error                  returned by     meaning
//	*RegistrationError     Add             tools that cannot be registered, and every reason
//	*ArgumentError         Invoke          the arguments do not fit, and which
//	*dedup.InvalidError    Invoke, Status  there is no tool of that name (Field is "Tool"), or a ReadOnly one tried to write
//	*external.ParkedError  Invoke          an ExternalTool's call may have taken effect, and a person has to find out
//
// Of an ExternalTool [dedup.ErrInFlight] means that the call goes on by itself: the same call again has
// its answer. Invoke returns the errors of [dedup.Do] as well, those of the tool's own Run,
// and for tools that need no key the database's.
package tool
