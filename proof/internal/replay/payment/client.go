package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/tooldedup/dedup/external"
)

const (
	keyHeader    = "Idempotency-Key"
	workerHeader = "Worker"
	sentHeader   = "Sent"
)

// client makes requests of the provider, for a worker.
type client struct {
	url, worker string
	http        http.Client
}

func newClient(url, worker string) *client {
	return &client{url, worker, http.Client{Transport: &external.Transport{}}}
}

// pay asks for a payment and returns its id.
func (c *client) pay(ctx context.Context, key, ref string) (id string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader([]byte(ref)))
	if err != nil {
		return "", external.NotDone(err)
	}
	req.Header.Set(keyHeader, key)
	err = c.send(req, &id)
	return id, err
}

// find returns the ids of all payments for a call.
func (c *client) find(ctx context.Context, ref string) (ids []string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"?ref="+url.QueryEscape(ref), nil)
	if err != nil {
		return nil, err
	}
	err = c.send(req, &ids)
	return ids, err
}

func (c *client) send(req *http.Request, answer any) error {
	req.Header.Set(workerHeader, c.worker)
	req.Header.Set(sentHeader, time.Now().Format(time.RFC3339Nano))
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close() // it was read to its end, or is broken
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return errors.New(res.Status)
	}
	return json.Unmarshal(text, answer)
}
