package runner

import (
	"io"
	"net/http"
)

// LostAnswerError says that a request was on a connection and no whole answer
// came: it may have been handled. [Transport] returns it for errors to which
// net/http gives no type of their own, such as the end of an HTTP/2 connection,
// and where net/http lost a connection with the request on it, sent it again by
// itself, and reached nobody.
type LostAnswerError struct {
	Err error
}

func (e *LostAnswerError) Error() string { return "runner: the answer was lost: " + e.Err.Error() }

// Unwrap returns Err.
func (e *LostAnswerError) Unwrap() error { return e.Err }

// Retryable is true: with the same key the request can be sent again.
func (e *LostAnswerError) Retryable() bool { return true }

// lostAnswer gives err a type where it has none that says what it is, or one
// that tells of another request than the one that was sent.
func lostAnswer(err error) error {
	if IsRetryable(err) && !isUnreached(err) {
		return err
	}
	return &LostAnswerError{Err: err}
}

// withLostBody makes the response's body tell when it ends too early.
func withLostBody(resp *http.Response) *http.Response {
	if resp.StatusCode != http.StatusSwitchingProtocols { // whose body is a connection
		resp.Body = lostBody{resp.Body}
	}
	return resp
}

type lostBody struct{ io.ReadCloser }

func (b lostBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = lostAnswer(err)
	}
	return n, err
}
