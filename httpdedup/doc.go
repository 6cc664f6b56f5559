// Package httpdedup lets HTTP handlers run once for each Idempotency-Key, with
// package dedup: the handler's writes and its answer are one Postgres transaction,
// and whoever sends the request again gets that answer.
//
//	m, err := httpdedup.New(d, httpdedup.Options{Scope: account})
//	mux.Handle("POST /orders", authenticated(m.Wrap("create_order", http.HandlerFunc(createOrder))))
//	mux.Handle("GET /operations/{tool}/{key}", authenticated(m.Operations()))
//
//	func createOrder(w http.ResponseWriter, r *http.Request) {
//		tx, _ := httpdedup.Tx(r.Context())
//		// write through tx, then answer through w
//	}
//
// It follows version 07 of the IETF's draft "The Idempotency-Key HTTP Header Field",
// which expired in April 2026. It does not claim to conform: a bare key is taken
// beside a quoted one. [StripeOptions] and [ACPOptions] follow Stripe's rules and those of the
// Agentic Commerce Protocol.
//
// # What becomes of an answer
//
//	the handler's answer     its writes     the answer                replayed
//	below 400                committed      sent after the commit     yes
//	4xx after [Final]        rolled back    sent once it is stored    yes
//	any other 4xx            rolled back    sent                      no: a retry runs again
//	5xx                      rolled back    sent                      no: a retry runs again
//	a panic                  rolled back    none, it is raised again  no: a retry runs again
//
// A replay has the status, the body byte for byte, the headers that
// [Options].Headers names, and "Idempotency-Replayed: true". The first answer has
// all headers of the handler, Set-Cookie too, and not that one. Both say until when the
// answer is kept, by the database's clock, in "Dedup-Kept-Until: Tue, 24 Nov 2026 12:00:00
// GMT": a header of this package's own, as no standard has one.
//
// A handler that answers with an error because one of its statements failed runs
// again if the fault may pass, such as a deadlock; see [dedup.IsTransient].
//
// # What a request is
//
// The same key must come with the same request: method, host, path, query, and body
// with its Content-Type and Content-Encoding. JSON counts by value, other bodies by
// their bytes, and no other header counts. Another request under the key is answered
// with 422, which names what differs. [Options].AnyHost leaves the host out. The file
// requests.md has sixty pairs of requests, and says of each why. The key belongs to scope and
// tool: other clients and other tools have theirs.
//
// An agent that cannot make keys sends Agent-Turn: "conversation 17"; turn=4. That is the
// session, and the number of the model's message in it, from 1. A request without a key, or with one
// that is empty, null, None or the tool's name, then has the [dedup.KeyFromToolCallArgs] of session, turn,
// tool and what it asks for, without the host. Two equal calls of one message are one here.
//
// # What it answers by itself
//
// Problem JSON (RFC 9457), whose type is the address of a heading in the file problems.md, such as
// in-flight. The file says when each comes, with which status, and whether to send the request
// again. Nothing has run or is stored where the status is 400, 403 or 413. None of them
// repeats a key or a value of the request.
//
// # Effects outside of the database
//
// A handler's writes are one transaction with its answer; a payment elsewhere is not.
// [Middleware.Tool] serves the external tools of a registry, which find out what became of calls that
// were cut off. A call that has no answer yet is answered with 202.
//
// # Tools
//
// [Middleware.Tool] serves any tool of a registry: the body is the tool's arguments and the answer its
// result. Such a call is the same one through every door of the registry.
//
// # The order of layers
//
// Authentication and authorization belong around the middleware: a replay is sent
// without the handler, and so without any layer inside.
//
// Layers that set headers for every answer (CORS, tracing), limit bodies, decompress
// them or compress answers belong around it too. What reads bodies or parses forms
// belongs inside.
//
// Inside, requests say Accept-Encoding: identity. An answer is replayed to requests
// that may accept other encodings than the first one, so a layer inside must not
// encode it. What the handler chooses by other headers, such as Accept-Language, is
// replayed as the first request got it.
//
// A body that somebody has read before the middleware cannot be compared, and is answered with 500. It
// is found out where a form was parsed, where the body is closed, and where fewer bytes are left than
// Content-Length says: a layer that decompresses a body sets r.ContentLength to -1. It cannot be found out of
// a body without Content-Length (chunks, HTTP/2) that a layer has read and not closed, and of the beginning of
// one that it has replaced: then two requests that differ in what was read are one under the same key.
//
// # What it refuses
//
// Nothing is sent before the commit, so the handler's ResponseWriter is no
// http.Flusher, http.Hijacker, http.Pusher or io.ReaderFrom, and
// http.ResponseController answers http.ErrNotSupported. Informational answers
// (1xx), trailers, and bodies of more than half of
// dedup's Options.MaxResultBytes roll back, and are answered with 500; OnError is told a *[dedup.InvalidError]. Serve streams, upgrades and
// large downloads outside of the middleware.
//
// http.TimeoutHandler belongs around it, not inside: there it would answer while the
// handler still uses the transaction.
package httpdedup
