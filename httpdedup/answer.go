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

// answer is an HTTP answer as it is stored: the result of a call, or the details
// of a refusal.
type answer struct {
	// Version tells an answer of this package from other JSON, and its form from
	// later ones.
	Version int         `json:"http"`
	Status  int         `json:"status"`
	Header  http.Header `json:"header,omitempty"`
	// The body is one of these, byte for byte: text where that is shorter.
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

const answerVersion = 1

// store makes the text that stores the answer, with the headers that are to be stored.
func (rec *recorder) store(headers []string) (err error) {
	a := answer{Version: answerVersion, Status: rec.status, Header: http.Header{}}
	for _, name := range headers {
		values, set := rec.sent[name]
		if !set || name == "Content-Encoding" && slices.Equal(values, rec.encoded) {
			continue
		}
		for _, value := range values {
			if !utf8.ValidString(value) {
				rec.refuse(rec.status, fmt.Sprintf("its header %s is no UTF-8; encode it", name))
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

// setBody chooses how to store the body. JSON writes each quote in two bytes and
// other controls in six, and cannot hold bytes that are no UTF-8. dedup writes the
// details of a refusal as json.Marshal does, with six bytes for < > & as well.
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

// readAnswer reads what store wrote.
func readAnswer(text json.RawMessage) (answer, error) {
	var a answer
	err := json.Unmarshal(text, &a)
	if err != nil || a.Version != answerVersion || a.Status < 200 || a.Status > 599 {
		return a, &dedup.InvalidError{What: "result", Reason: "is recorded, and is no HTTP answer; give tools of other doors other names", Stored: text, Err: err}
	}
	return a, nil
}

func (a *answer) body() []byte {
	if len(a.Base64) > 0 {
		return a.Base64
	}
	return []byte(a.Text)
}

// replay sends a stored answer. It is not marked as one where it answers the
// request that made it, whose COMMIT was found out about afterwards.
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

// mark says whether an answer is that of an earlier request, and until when it is kept: to
// the second before, and nothing where it is not kept.
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

// union returns the lines of a, and those of b that are not among them.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, line := range b {
		if !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}

// first sends the answer of the handler that has just run, with all its headers. until is
// zero where it is not kept.
func (m *Middleware) first(w http.ResponseWriter, rec *recorder, until time.Time) {
	clear(w.Header())
	maps.Copy(w.Header(), rec.sent)
	m.mark(w, false, until)
	send(w, rec.status, rec.body)
}

// send sends status and body. An error of writing is the client's loss of the
// answer, against which it has its key. What is encoded has no Content-Length: a
// layer around may be about to encode it, and not think of the header.
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

// failedAnswer is the error of a handler that has answered with one. Where that is final, dedup
// keeps its details, and with them the whole answer.
type failedAnswer struct {
	status int
	text   json.RawMessage
}

// Error implements error. The text is stored with the record.
func (e *failedAnswer) Error() string {
	return fmt.Sprintf("answered with %d %s", e.status, http.StatusText(e.status))
}

// Code gives the refusal a code, for those who look it up otherwise than by HTTP.
func (e *failedAnswer) Code() string { return "http_" + strconv.Itoa(e.status) }

// MarshalJSON implements json.Marshaler.
func (e *failedAnswer) MarshalJSON() ([]byte, error) { return bytes.Clone(e.text), nil }
