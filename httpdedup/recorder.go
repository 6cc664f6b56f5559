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

// recorder is the http.ResponseWriter of one run of a handler. It holds the answer until the
// commit, when it is sent. So it is not an http.Flusher, http.Hijacker or http.Pusher, has no
// ReadFrom and no Unwrap: http.ResponseController returns http.ErrNotSupported.
type recorder struct {
	tx     pgx.Tx
	final  atomic.Bool
	header http.Header // the handler's
	sent   http.Header // the headers when the status was written
	status int         // 0 until the handler writes it
	body   []byte
	most   int                 // the maximum of len(body)
	fault  *dedup.InvalidError // the first reason why the answer cannot be stored
	text   json.RawMessage     // the stored form of the answer, nil if it is not stored
	// encoded is the Content-Encoding that an outer layer set. That layer encodes the answer when
	// it is sent; the body here is not encoded.
	encoded []string
}

// newRecorder starts with the headers that outer layers set, so that the handler can see and change
// them.
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
		rec.refuse(status, "a connection cannot be handed over after the commit; serve upgrades outside the middleware")
	case status < 200:
		rec.refuse(status, "nothing is sent before the commit; leave informational answers out, or serve them outside the middleware")
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
		rec.refuse(rec.status, fmt.Sprintf("its body exceeds %d bytes; answer with a reference, or raise dedup's Options.MaxResultBytes, which is twice the limit", rec.most))
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

// kept reports whether the answer is stored.
func (rec *recorder) kept() bool { return rec.status < 400 || rec.status < 500 && rec.final.Load() }

// finish ends the answer as net/http would, and returns why it cannot be stored.
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
		rec.refuse(rec.status, "no client knows the status; use one up to 599")
	}
	// A handler that wrote more or fewer bytes than it announced failed.
	if announced := rec.sent.Get("Content-Length"); announced != "" && bodyAllowed(rec.status) && announced != strconv.Itoa(len(rec.body)) {
		rec.refuse(rec.status, "it has another Content-Length than its body; leave the header out")
	}
	if rec.fault != nil {
		return rec.fault
	}
	rec.sniff()
	return nil
}

// sniff sets the Content-Type of a body as net/http would, so that every replay has the same one.
func (rec *recorder) sniff() {
	_, typed := rec.sent["Content-Type"]
	if !typed && len(rec.body) > 0 && rec.sent.Get("Content-Encoding") == "" {
		rec.sent.Set("Content-Type", http.DetectContentType(rec.body))
	}
}

// bodyAllowed reports whether an answer with this status may have a body.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
