// Package mcpdedup exposes the tools of package [tool] through a server of the official MCP Go SDK.
// A call that a client repeats is carried out once and gets the same answer each time.
//
//	err := tools.Add(tool.Tool[RefundIn, Refund]{Name: "refund_order", Class: tool.Destructive, Run: refundOrder})
//	...
//	server := mcp.NewServer(&mcp.Implementation{Name: "desk"}, nil)
//	err = mcpdedup.AddTools(server, tools, &mcpdedup.Options{Scope: mcpdedup.TokenUser})
//
// [AddTools] is for tools of a registry. [Middleware] is for existing tools that were written for
// the SDK.
//
// # Scope
//
// Clients choose keys, and two clients may choose the same one. So every call has a scope, the
// authenticated principal, which only Options.Scope determines. [TokenUser] returns the user of the
// bearer token, and [SingleUser] a fixed name for a server over stdio. There is no default.
//
// # Keys
//
// A tool that writes gets an additional argument, idempotencyKey. Its description tells a model to
// make a new key for a new action and to send the same key with a retry. The argument is required
// for Write and Destructive tools and optional for Idempotent ones. It is removed before the
// arguments are compared and decoded. A tool whose own arguments are the key (tagged dedup:"key")
// does not get it.
//
// Better than the model, the client makes the key, together with the plan, and sends it in the
// request's _meta as [MetaKey]. That key overrides the argument unless it is null or the like (see
// below). If all clients do so, Options.KeysInMeta leaves the argument out.
//
// Protocols above MCP may have a key among a tool's own arguments: AdCP has idempotency_key. Name
// that argument by the tag dedup:"key" or, for [Middleware], by Policy.KeyArgument. The tool's
// schema then stays unchanged.
//
// A client that cannot make keys may send the number of its model's message in _meta as [MetaTurn].
// It makes the key if the call's key is missing, null, empty, "null", "None" or the tool's name:
// clients send these if the model's provider gave no id. The key is then the
// [dedup.KeyFromToolCallArgs] of session, turn, tool and arguments, and two equal calls of one
// message are one call. Without a turn such keys are refused.
//
// A key has 1 to 255 characters and no control characters. A key of more than 255 bytes is replaced
// by its [dedup.KeyFromIntent].
//
// The id of the JSON-RPC request is never a key, because a retry has another id. Nor is the MCP
// session, because a client that reconnects has a new one.
//
// # Answers
//
// The result is sent as text, and in structuredContent too if it is a JSON object. If the call has
// a record, _meta has the key, duplicate and createdAt. duplicate is true if an earlier call made
// the answer and nothing was done now. createdAt is when the answer was recorded, by the database's
// clock (RFC 3339). Most models never see _meta, and some clients drop it. Options.Envelope wraps
// every result, and its output schema, as {status, result, duplicate, createdAt}, so that models
// see them.
//
// The output schema is that of Out, without required members, and with other members allowed. A
// replayed result may be older than the tool's present type, and clients refuse a result that does
// not fit its schema.
//
// # Effects outside the database
//
// A call of a [tool.ExternalTool] may lack a result, or may need an operator to find out its
// outcome. So its results are always in an envelope, which the output schema declares:
//
//	{"status": "done", "operation": "charge/k1", "result": …, "duplicate": false, "createdAt": …}
//	{"status": "running", "operation": "charge/k1", "message": …, "retryAfter": 5}
//	{"status": "parked", "operation": "charge/k1", "message": …, "retryAfter": 300}
//
// The message tells what to do next: a parked call may have taken effect, so do not repeat it with
// a new key. [AddTools] adds the read-only tool get_operation. It takes an operation and answers in
// the same envelope; its status can also be pending, refused, expired or not_found. A call that was
// refused, or whose result is not kept any more, is a tool error, as for other tools.
//
// # Errors
//
// Every failure of a call is a tool error (isError). Its text lets a model correct itself. _meta
// has its code as io.github.tooldedup/error, and the seconds to wait as
// io.github.tooldedup/retry-after. For a tool's refusal it has {code, details} as
// io.github.tooldedup/refusal:
//
//	code               the call                                          again?
//	key_required       needs a key and came without one                  with a key
//	key_invalid        has a key that is not a string or names no call   with another key
//	key_reused         has a key that was used with other arguments      with those, or a new key
//	arguments_invalid  has arguments that do not fit                     with others
//	in_flight          runs right now; _meta has the time to wait        same key
//	expired            was answered, and the answer is not kept          no
//	refused            was refused by the tool, whose text this is       no
//	outcome_unknown    may have been committed                           same key
//	unavailable        met a busy or unreachable database                same key
//	timeout            ended, or was cancelled, without an answer        same key
//	blocked            may have happened without a record                no
//	unidentified       lacks a scope: Options.Scope gave none            no
//	failed             failed for a reason that clients do not see       perhaps
//
// This package's texts never quote an argument's value, SQL or details of the server. A tool writes
// the text of its refusal, and Options.Explain its own. Options.OnError gets the errors that
// clients do not see. A call of an unknown tool gets the error -32602, as without this package. The
// SDK answers requests that are not MCP, and quotes some of them to their sender.
package mcpdedup
