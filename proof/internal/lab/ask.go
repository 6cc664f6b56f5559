package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// Ask makes a request and reads the whole answer. A truncated answer is an error.
func Ask(ctx context.Context, web *http.Client, method, url string, header http.Header, body []byte) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header = header
	response, err := web.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }() // the body was read to its end, or is broken
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the answer: %w", err)
	}
	return response, answer, nil
}
