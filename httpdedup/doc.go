// Package httpdedup runs an HTTP handler once for each Idempotency-Key, with package dedup. The
// handler's writes and its answer are one Postgres transaction. A request that is sent again gets
// the first answer.
//
//	middleware, err := httpdedup.New(d, httpdedup.Options{Scope: account})
//	mux.Handle("POST /orders", authenticated(middleware.Wrap("create_order", http.HandlerFunc(createOrder))))
//	mux.Handle("GET /operations/{tool}/{key}", authenticated(middleware.Operations()))
//
//	func createOrder(w http.ResponseWriter, r *http.Request) {
//		tx, _ := httpdedup.Tx(r.Context())
//		// write through tx, then answer through w
//	}
//
// It follows version 07 of the IETF draft "The Idempotency-Key HTTP Header Field", which expired in
// April 2026. It does not claim to conform: it accepts a bare key as well as a quoted one.
// [StripeOptions] and [ACPOptions] follow the rules of Stripe and of the Agentic Commerce Protocol.
//
// # The fate of an answer
//
//	the handler's answer     its writes     the answer                replayed
//	below 400                committed      sent after the commit     yes
//	4xx after Final          rolled back    sent once it is stored    yes
//	any other 4xx            rolled back    sent                      no: a retry runs again
//	5xx                      rolled back    sent                      no: a retry runs again
//	a panic                  rolled back    none, it is raised again  no: a retry runs again
//
// A replay has the status, the exact bytes of the body, the headers in [Options].Headers, and
// "Idempotency-Replayed: true". The first answer has all the handler's headers, Set-Cookie too,
// without that mark. Both have "Dedup-Kept-Until: Tue, 24 Nov 2026 12:00:00 GMT": the time, by the
// database's clock, until which the answer is kept. The header is this package's own, because no
// standard has one.
//
// With a negative Retention.Result the answer of a handler is not kept: its first caller gets it,
// without Dedup-Kept-Until, and a retry gets 410 with the problem "expired".
//
// A handler that answers with an error because a statement failed runs again if the fault may pass,
// such as a deadlock; see [dedup.IsTransient].
//
// # When two requests are the same
//
// A repeat of a key must be the same request: the same method, host, path, query, and body with its
// Content-Type and Content-Encoding. A JSON body is compared by its value, any other by its bytes.
// No other header is compared. A different request is answered with 422, which names the
// differences. [Options].AnyHost leaves the host out. The file requests.md explains about sixty
// pairs of requests. A key belongs to its scope and tool: other clients and other tools have keys
// of their own.
//
// An agent that cannot make keys sends Agent-Turn: "conversation 17"; turn=4. It has the session,
// and the number of the model's message in the session, from 1. It makes the key if the request's
// key is missing, empty, null, None or the tool's name: the [dedup.KeyFromToolCallArgs] of session,
// turn, tool and the request without its host. Two equal calls of one message are then one call.
//
// # The middleware's own answers
//
// The middleware's own answers are problem JSON (RFC 9457). The type is the address of a heading in
// the file problems.md, such as in-flight. The file lists when each comes, with which status, and
// whether to send the request again. After 400, 403 and 413 nothing was done and nothing is stored,
// unless Options.ReusedStatus is 400: then the key's first request ran. No problem repeats a key or
// a value of the request.
//
// # Effects outside the database
//
// A handler's writes are one transaction with its answer; a payment to a provider is not.
// [Middleware.Tool] serves the external tools of a registry, which find out the outcome of calls
// that were cut off. A call without an answer yet gets 202.
//
// # Tools
//
// [Middleware.Tool] serves any tool of a registry: the body has the tool's arguments, and the
// answer is its result. The call is the same one over HTTP, over MCP and in an agent's loop.
//
// # The order of layers
//
// Put authentication and authorization around the middleware: a replay does not run the handler,
// nor any layer inside.
//
// Also put around it the layers that set headers on every answer (CORS, tracing), limit or
// decompress bodies, or compress answers. Put layers that read bodies or parse forms inside.
//
// Inside, requests have Accept-Encoding: identity. An answer is replayed to requests that may
// accept other encodings than the first, so an inner layer must not encode it. If the handler
// chooses its answer by another header, such as Accept-Language, a replay is the choice of the
// first request.
//
// A body that an outer layer has read cannot be compared, and gets 500. The middleware detects it
// if a form was parsed, if the body is closed, and if fewer bytes are left than Content-Length. So
// a layer that decompresses a body sets r.ContentLength to -1. It cannot detect that a layer read a
// body without Content-Length (chunks, HTTP/2) and did not close it. Nor can it detect that a layer
// read the beginning of a body that it replaced. Two requests that differ in that part are then one
// under the same key.
//
// # Unsupported answers
//
// Nothing is sent before the commit. So the handler's ResponseWriter is not an http.Flusher,
// http.Hijacker, http.Pusher or io.ReaderFrom, and http.ResponseController returns
// http.ErrNotSupported. Informational answers (1xx), trailers, and bodies larger than half of
// dedup's Options.MaxResultBytes are rolled back and answered with 500; OnError gets a
// *[dedup.InvalidError]. Serve streams, upgrades and large downloads outside the middleware.
//
// Put http.TimeoutHandler around the middleware. Inside it would answer while the handler still
// uses the transaction.
package httpdedup
