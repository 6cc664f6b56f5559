// Package mcpdedup exposes the tools of package [tool] through a server of the
// official MCP Go SDK, so that a call that a client makes again is carried out
// once and answered alike each time.
//
//	err := tools.Add(tool.Tool[RefundIn, Refund]{Name: "refund_order", Class: tool.Destructive, Run: refundOrder})
//	...
//	server := mcp.NewServer(&mcp.Implementation{Name: "desk"}, nil)
//	err = mcpdedup.AddTools(server, tools, &mcpdedup.Options{Scope: mcpdedup.TokenUser})
//
// [AddTools] is for tools of a registry, and [Middleware] for tools that a server has
// already, written for the SDK.
//
// # Scope
//
// Keys are chosen by clients, and two clients may choose one. So every call has
// a scope, the authenticated principal, which comes from Options.Scope and
// nowhere else: [TokenUser] takes the user of the bearer token, [SingleUser]
// names the one user of a server over stdio. There is no default.
//
// # Keys
//
// A tool that writes gets one more argument in its schema, idempotencyKey,
// described so that a model mints a new one for a new action and sends the same
// one with a retry. It is required for Write and Destructive tools and optional
// for Idempotent ones, and is taken out before the arguments are compared and
// decoded. Tools whose own arguments are the key (tagged dedup:"key") get none.
//
// A client, or the program around a model, does better than a model: it mints
// the key with the plan and sends it in the request's _meta as [MetaKey]. That
// wins over the argument, unless it is null or the like (below). Where all clients do so, Options.KeysInMeta leaves the
// argument out.
//
// Protocols above MCP may have a key among a tool's own arguments: AdCP has
// idempotency_key. Such a tool names it, by the tag dedup:"key" or, behind the
// middleware, by Policy.KeyArgument, and its schema stays as it is.
//
// A client that cannot make keys may say which message of its model a call comes from, in _meta as
// [MetaTurn]. Then a call without a key has that of its session, turn, tool and arguments
// ([dedup.KeyFromToolCallArgs]), and so has one whose key is null, empty, "null", "None" or the tool's
// name, as it becomes of ids that a model's provider never gave. Without a turn those are no key, and
// refused. Two equal calls of one message are one here.
//
// A key has 1 to 255 characters and no control characters. One that has more than
// 255 bytes stands for the [dedup.KeyFromIntent] of it.
//
// The id of the JSON-RPC request is never a key, because a retry has another,
// and neither is the MCP session, because a client that reconnects is in a new
// one.
//
// # Answers
//
// The result stands in structuredContent where it is an object, and as text. In
// _meta there are duplicate, whether this is the answer of an earlier call and nothing was done now,
// firstAt, when that was recorded by the database's clock (RFC 3339), and the key. They are there if
// the call has a record. Most models never see _meta, and some clients drop it. Options.Envelope wraps
// results as {status, result, duplicate, firstAt} for those who shall see it, and their output schemas with them.
//
// The output schema is that of Out, but open: no member is required and others
// are allowed. A replayed result may be older than the tool's present type, and
// clients refuse results that do not fit.
//
// # Effects outside of the database
//
// A call of a [tool.ExternalTool] may have no result yet, or need a person to find out what became of it. So its
// results always stand in an envelope, which its output schema declares:
//
//	{"status": "done", "operation": "charge/k1", "result": …, "duplicate": false, "firstAt": …}
//	{"status": "running", "operation": "charge/k1", "message": …, "retryAfter": 5}
//	{"status": "parked", "operation": "charge/k1", "message": …, "retryAfter": 300}
//
// The message says what to do next. Of a parked call, which may have taken effect, it says not to repeat it
// with a new key. The read-only tool get_operation, which [AddTools] adds, takes an operation and answers in the same envelope, where
// the status may also be pending, refused, expired or unknown. A call that was refused, and one whose result is
// no longer kept, is a tool error, as of other tools.
//
// # Errors
//
// Whatever goes wrong with a call is a tool error (isError), with a text from
// which a model can correct itself and a code in _meta as io.github.tooldedup/error. How many seconds
// to wait is io.github.tooldedup/retry-after there, and what a tool's refusal has beside its text,
// {code, details}, io.github.tooldedup/refusal:
//
//	code               the call                                          again?
//	key_required       needs a key and has none                          with a key
//	key_invalid        has a key that is no string, names no call, ...   with another key
//	key_reused         has a key that was used with other arguments      with those, or a new key
//	arguments_invalid  has arguments that do not fit                     with others
//	in_flight          runs right now; _meta says how long to wait       same key
//	expired            ran, and its result is no longer kept             no
//	refused            was refused by the tool, whose text this is       no
//	outcome_unknown    may have been committed                           same key
//	unavailable        met a busy or unreachable database                same key
//	timeout            ended, or was cancelled, without an answer        same key
//	blocked            may have happened without a record                no
//	unidentified       comes from nobody that Options.Scope knows        no
//	failed             failed for a reason that clients are not told     perhaps
//
// No text of this package quotes the value of an argument, SQL or anything of the
// server's; those of a tool's refusal and of Options.Explain are their authors'.
// What is kept from clients goes to Options.OnError. A call of a tool that the server
// does not have is answered as without this package, by the error -32602. Requests
// that are no MCP are answered by the SDK, which quotes some of them to their sender.
package mcpdedup
