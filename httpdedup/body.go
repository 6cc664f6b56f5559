package httpdedup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// readBody reads a request's body to its end, or refuses it.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	tooLarge := refuse(kindBodyTooLarge, fmt.Sprintf("The body may have %d bytes at most. Send the large part elsewhere, and a reference to it here.", most))
	if r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > most {
		return nil, tooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge
	case err != nil:
		return nil, refuse(kindInvalidBody, "The body could not be read to its end. Send all of it, as Content-Length or the chunks announce.")
	case wasRead(r, len(body)):
		return nil, ErrBodyRead
	}
	return body, nil
}

// wasRead tells whether a request whose body has size bytes left was sent with
// more: with another one that left the same they would be taken for one.
func wasRead(r *http.Request, size int) bool {
	if size == 0 {
		return r.ContentLength != 0 || len(r.PostForm) > 0 || r.MultipartForm != nil
	}
	// What decompresses a body may leave the size as it came.
	return int64(size) < r.ContentLength && r.Header.Get("Content-Encoding") == ""
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
