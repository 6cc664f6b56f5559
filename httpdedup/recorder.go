package httpdedup

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// recorder is the http.ResponseWriter of one run of a handler: it holds the answer until it
// is known whether there is one. What it writes is only sent after the commit, so
// it is no http.Flusher, http.Hijacker or http.Pusher, has no ReadFrom and
// unwraps to nothing: http.ResponseController answers http.ErrNotSupported.
type recorder struct {
	tx     pgx.Tx
	final  atomic.Bool
	header http.Header // what the handler works on
	sent   http.Header // as it was when the status was written
	status int         // 0 until then
	body   []byte
	most   int                 // bytes of body
	fault  *dedup.InvalidError // the first thing that cannot be stored
	text   json.RawMessage     // the answer as it is to be stored, nil where it is not
	// encoded is the Content-Encoding that a layer around has set: that layer will
	// encode what is sent, and what is held here is not.
	encoded []string
}

// newRecorder starts with the headers that the layers around have set, so that the
// handler can see and change them.
func newRecorder(tx pgx.Tx, outer http.Header, most int) *recorder {
	return &recorder{tx: tx, header: outer.Clone(), most: most, encoded: slices.Clone(outer["Content-Encoding"])}
}

// Header implements http.ResponseWriter.
func (rec *recorder) Header() http.Header { return rec.header }

// WriteHeader implements http.ResponseWriter.
func (rec *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999: // as net/http does
		panic(fmt.Sprintf("httpdedup: invalid WriteHeader code %d", status))
	case status == http.StatusSwitchingProtocols:
		rec.refuse(status, "a connection cannot be handed over after the commit; serve upgrades outside of the middleware")
	case status < 200:
		rec.refuse(status, "nothing is sent before the commit; leave informational answers out, or serve them outside of the middleware")
	case rec.status != 0: // the first one counts, as in net/http
	default:
		rec.status, rec.sent = status, rec.Header().Clone()
	}
}

// Write implements http.ResponseWriter.
func (rec *recorder) Write(b []byte) (int, error) {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(rec.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if len(b) > rec.most-len(rec.body) {
		rec.refuse(rec.status, fmt.Sprintf("its body exceeds %d bytes; answer with a reference, or raise dedup's Options.MaxResultBytes, of which it is the half", rec.most))
		return 0, rec.fault
	}
	rec.body = append(rec.body, b...)
	return len(b), nil
}

// refuse remembers the first fault.
func (rec *recorder) refuse(status int, reason string) {
	if rec.fault == nil {
		rec.fault = &dedup.InvalidError{What: "result", Reason: fmt.Sprintf("is an answer of %d that cannot be stored, and the call was rolled back: %s", status, reason)}
	}
}

// kept reports whether the answer is to be stored.
func (rec *recorder) kept() bool { return rec.status < 400 || rec.status < 500 && rec.final.Load() }

// finish ends the answer as net/http would, and says what of it cannot be kept.
func (rec *recorder) finish() error {
	if rec.status == 0 {
		rec.WriteHeader(http.StatusOK)
	}
	for _, header := range []http.Header{rec.header, rec.sent} {
		for name := range header {
			if name == "Trailer" || strings.HasPrefix(name, http.TrailerPrefix) {
				rec.refuse(rec.status, "trailers are not kept; send headers")
			}
		}
	}
	if rec.status > 599 {
		rec.refuse(rec.status, "the status means nothing to clients; use one up to 599")
	}
	// A handler that wrote less or more than it announced did not end as it meant to.
	if announced := rec.sent.Get("Content-Length"); announced != "" && bodyAllowed(rec.status) && announced != strconv.Itoa(len(rec.body)) {
		rec.refuse(rec.status, "it has another Content-Length than its body; leave the header out")
	}
	if rec.fault != nil {
		return rec.fault
	}
	rec.sniff()
	return nil
}

// sniff guesses the type of a body that came without one where net/http would, so
// that the guess is stored and every replay has it.
func (rec *recorder) sniff() {
	_, typed := rec.sent["Content-Type"]
	if !typed && len(rec.body) > 0 && rec.sent.Get("Content-Encoding") == "" {
		rec.sent.Set("Content-Type", http.DetectContentType(rec.body))
	}
}

// bodyAllowed reports whether an answer of that status may have a body.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
