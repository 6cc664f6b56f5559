package httpdedup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
)

// watchedBody counts what is read of a body while Options.Scope and Options.Tool
// are asked about its request.
type watchedBody struct {
	io.ReadCloser
	read int64
}

// Read implements io.Reader.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	return n, err
}

// watchBody puts a watchedBody in a request. The function returned takes it out
// again, and returns errBodyRead where something was read and not given back.
func watchBody(r *http.Request) (unwatch func() error) {
	if r.Body == nil || r.Body == http.NoBody {
		return func() error { return nil }
	}
	watched := &watchedBody{ReadCloser: r.Body}
	r.Body = watched
	return func() error {
		if r.Body != watched { // another body was put in its place
			return nil
		}
		r.Body = watched.ReadCloser
		if watched.read > 0 {
			return errBodyRead
		}
		return nil
	}
}

// readBody reads a request's body to its end, or refuses it.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large): // the limit may be that of a layer around
		return nil, tooLarge(large.Limit)
	case errors.Is(err, http.ErrBodyReadAfterClose):
		return nil, errBodyRead
	case err != nil:
		return nil, refuse(kindInvalidBody, "The body could not be read to its end. Send all of it, as Content-Length or the chunks announce.")
	case wasRead(r, len(body)):
		return nil, errBodyRead
	}
	return body, nil
}

func tooLarge(limit int64) error {
	return refuse(kindBodyTooLarge, fmt.Sprintf("The body exceeds %d bytes. Send the large part elsewhere, and a reference to it here.", limit))
}

// wasRead reports whether a layer around has read a body of which size bytes are
// left. Two requests that differ in what was read would be taken for one. Of a body
// without Content-Length (chunks, HTTP/2), and of the beginning of one that a layer has replaced,
// it cannot be told.
func wasRead(r *http.Request, size int) bool {
	if size == 0 {
		return r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil
	}
	// A body that a layer has replaced, to decompress it for instance, may be shorter
	// than what was sent.
	return int64(size) < r.ContentLength && r.Header.Get("Content-Encoding") == "" && madeByServer(r.Body)
}

// madeByServer reports whether a body is the server's own, whose length is the
// Content-Length. http.MaxBytesReader counts as such.
func madeByServer(body io.ReadCloser) bool {
	t := reflect.TypeOf(body)
	if t.Kind() != reflect.Pointer {
		return false
	}
	path := t.Elem().PkgPath()
	return path == "net/http" || strings.HasPrefix(path, "net/http/") || path == "golang.org/x/net/http2"
}

// withBody gives a request a body that has been read before, from its beginning.
func withBody(r *http.Request, body []byte) {
	r.Body = http.NoBody
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
}
