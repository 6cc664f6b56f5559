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

// bodiless returns a request for Options.Scope and Options.Tool. They cannot read the body, which
// is compared later.
func bodiless(r *http.Request) *http.Request {
	r = r.WithContext(r.Context()) // a copy
	r.Body = http.NoBody
	return r
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
	case errors.As(err, &large): // the limit may be an outer layer's
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

// wasRead reports whether an outer layer read a part of the body, of which size bytes are left. Two
// requests that differ in that part would count as one. It cannot be detected for a body without
// Content-Length (chunks, HTTP/2), nor for the beginning of a body that a layer replaced.
func wasRead(r *http.Request, size int) bool {
	if size == 0 {
		return r.ContentLength > 0 || len(r.PostForm) > 0 || r.MultipartForm != nil
	}
	// A layer that replaced the body, for instance to decompress it, may have made it shorter.
	return int64(size) < r.ContentLength && r.Header.Get("Content-Encoding") == "" && madeByServer(r.Body)
}

// madeByServer reports whether the server made the body, so that its length is the Content-Length.
// An http.MaxBytesReader counts.
func madeByServer(body io.ReadCloser) bool {
	t := reflect.TypeOf(body)
	if t.Kind() != reflect.Pointer {
		return false
	}
	path := t.Elem().PkgPath()
	return path == "net/http" || strings.HasPrefix(path, "net/http/") || path == "golang.org/x/net/http2"
}

// withBody gives a request its body again, from the beginning.
func withBody(r *http.Request, body []byte) {
	r.Body = http.NoBody
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
}
