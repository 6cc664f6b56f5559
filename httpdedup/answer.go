package httpdedup

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
)

// answer is an HTTP answer as it is stored: as the result of a call, or as the details of a
// refusal.
type answer struct {
	// Version distinguishes an answer of this package from other JSON, and from later forms of it.
	Version int         `json:"http"`
	Status  int         `json:"status"`
	Header  http.Header `json:"header,omitempty"`
	// Text or Base64 holds the exact bytes of the body. Text is used if it is the shorter one.
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

const answerVersion = 1

// store encodes the answer, with the named headers, into rec.text.
func (rec *recorder) store(headers []string) (err error) {
	a := answer{Version: answerVersion, Status: rec.status, Header: http.Header{}}
	for _, name := range headers {
		values, set := rec.sent[name]
		if !set || name == "Content-Encoding" && slices.Equal(values, rec.encoded) {
			continue
		}
		for _, value := range values {
			if !utf8.ValidString(value) {
				rec.refuse(rec.status, fmt.Sprintf("its header %s is not UTF-8; encode it", name))
				return rec.fault
			}
		}
		a.Header[name] = values
	}
	if err := a.setBody(rec.body); err != nil {
		return err
	}
	rec.text, err = door.JSON(a)
	return err
}

// setBody stores the body as Text or Base64. In JSON a quote takes two bytes and other control
// characters six, and bytes that are not UTF-8 cannot be written. dedup encodes the details of a
// refusal with json.Marshal, which writes <, > and & in six bytes too.
func (a *answer) setBody(body []byte) error {
	if utf8.Valid(body) {
		text, err := json.Marshal(string(body))
		if err != nil {
			return err
		}
		if len(text) <= base64.StdEncoding.EncodedLen(len(body))+len(`""`) || len(body) == 0 {
			a.Text = string(body)
			return nil
		}
	}
	a.Base64 = body
	return nil
}

// readAnswer reads an answer that store wrote.
func readAnswer(text json.RawMessage) (answer, error) {
	var a answer
	err := json.Unmarshal(text, &a)
	if err != nil || a.Version != answerVersion || a.Status < 200 || a.Status > 599 {
		return a, &dedup.InvalidError{What: "result", Reason: "is recorded and is not an HTTP answer; give tools of other packages other names", Stored: text, Err: err}
	}
	return a, nil
}

func (a *answer) body() []byte {
	if len(a.Base64) > 0 {
		return a.Base64
	}
	return []byte(a.Text)
}

// replay sends a stored answer. marked is false if the answer was made by this request and found
// after its COMMIT lost its reply.
func (m *Middleware) replay(w http.ResponseWriter, a answer, marked bool, until time.Time) {
	for name, values := range a.Header {
		if name == "Vary" {
			values = union(w.Header()[name], values)
		}
		w.Header()[name] = values
	}
	m.mark(w, marked, until)
	send(w, a.Status, a.body())
}

// mark sets the headers that tell whether the answer is a replay and until when it is kept, rounded
// down to the second. If until is zero the answer is not kept.
func (m *Middleware) mark(w http.ResponseWriter, replayed bool, until time.Time) {
	header := w.Header()
	header.Del(m.opts.ReplayedHeader)
	if replayed {
		header.Set(m.opts.ReplayedHeader, "true")
	}
	header.Del(keptHeader)
	if !until.IsZero() {
		header.Set(keptHeader, until.UTC().Format(http.TimeFormat))
	}
}

// union returns the lines of a, and those of b that a lacks.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, line := range b {
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

// sendFirst sends the answer of the handler that has just run, with all its headers. until is zero
// if the answer is not kept.
func (m *Middleware) sendFirst(w http.ResponseWriter, rec *recorder, until time.Time) {
	clear(w.Header())
	maps.Copy(w.Header(), rec.sent)
	m.mark(w, false, until)
	send(w, rec.status, rec.body)
}

// send sends status and body. A write error is ignored: the client lost the answer and can retry
// with its key. An encoded body gets no Content-Length: an outer layer may encode the answer
// without correcting the header.
func send(w http.ResponseWriter, status int, body []byte) {
	w.Header().Del("Content-Length")
	if bodyAllowed(status) && w.Header().Get("Content-Encoding") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if bodyAllowed(status) {
		_, _ = w.Write(body)
	}
}

// failedAnswer is the error of a handler that answered with one. If it is final, dedup stores its
// details, which are the whole answer.
type failedAnswer struct {
	status int
	text   json.RawMessage
}

// Error implements error. The text is stored with the record.
func (e *failedAnswer) Error() string {
	return fmt.Sprintf("answered with %d %s", e.status, http.StatusText(e.status))
}

// Code gives the refusal a code, for readers of the record that do not use HTTP.
func (e *failedAnswer) Code() string { return "http_" + strconv.Itoa(e.status) }

// MarshalJSON implements json.Marshaler.
func (e *failedAnswer) MarshalJSON() ([]byte, error) { return bytes.Clone(e.text), nil }
