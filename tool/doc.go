// Package tool makes tools out of functions: named, classified, with typed arguments, and guarded
// by package dedup. A write tool that does not say how its repeats are told apart cannot be
// registered.
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
// In is a struct, and a call's arguments are a JSON object of its fields. Names are spelled
// exactly; an unknown name and a name given twice are refused. A field is required unless its json
// tag has omitempty or omitzero. A number without a fraction, such as 1.0 or 1e2, is an integer.
// The keys of a map are strings. [Info.InputSchema] says the same as a JSON Schema. Tags say how a
// field counts when calls are compared:
//
//	OrderID string `json:"order_id" dedup:"key"`              // names the intent
//	Note    string `json:"note,omitempty" dedup:"ignore"`     // may differ between tries
//	Card    string `json:"card" dedup:"redact"`               // secret
//
// Fields tagged key are the call's key, and override any other key of the call. A single string
// field is the key as it is; other types and several fields go through [dedup.KeyFromIntent]. A
// time.Time in the key is converted to UTC: only its instant counts. In any other field a time is
// compared as it is spelled, zone included.
//
// Fields tagged ignore are left out of the fingerprint: use it for text that a model words anew, or
// an id that a tracer adds, with each try. Fields tagged redact are left out of the fingerprint and
// of every digest that is stored: a call that differs in them alone is the same call. No error of
// this package quotes an argument, tagged or not.
//
// # Keys
//
// A call's key comes from the first of these that the call has: its fields tagged key;
// Invocation.Key; with OncePerRequest of its tool, Invocation.Request and the arguments; its
// session, turn and id. A Write without any of them is refused with [dedup.ErrInvalid].
//
// A usable id makes the key ([dedup.KeyFromToolCall]). The arguments make the key
// ([dedup.KeyFromToolCallArgs]) if the id is empty, "null", "None" or the tool's name. If calls of
// a message share an id, the call that is recorded first has the id's key, and id and arguments
// make the keys of the others. Arguments tagged ignore or redact are not part of a key. Calls of
// one tool with the same usable id and the same arguments are one call.
//
// Only [Registry.InvokeAll] sees that calls of one message share an id, or are equal without an id
// or with OncePerRequest. With Invoke, a call whose id belongs to another call is refused with
// [dedup.ErrKeyReused], and two such equal calls are one.
//
// A tool finds its call in its context: [InvocationOf] returns the scope, key, session and turn,
// however the call arrived.
//
// # Errors
//
//	error                  returned by     meaning
//	*RegistrationError     Add             tools that cannot be registered, and every reason
//	*ArgumentError         Invoke          the arguments do not fit, and which; Run may return it too
//	*dedup.InvalidError    Invoke, Status  the tool is unknown (Field is "Tool"), or a ReadOnly one tried to write
//	*external.ParkedError  Invoke          an ExternalTool's call possibly took effect, and an operator must find out
//
// [dedup.ErrInFlight] from an ExternalTool means that the operation goes on in the background; the
// same call, made again, returns its answer. Invoke also returns the errors of [dedup.Do] and of
// the tool's own Run. For tools that need no key it returns the database's errors too.
package tool
