package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

const (
	keyHeader = "Idempotency-Key"
	// claimedHeader has when the attempt was claimed. An honest provider loses a request
	// that would take effect too long after that.
	claimedHeader = "Claimed"
)

var errDeclined = errors.New("declined")

// client makes requests of the provider.
type client struct {
	url  string
	http *http.Client
}

func newClient(url string) *client {
	return &client{url, &http.Client{Transport: &external.Transport{Base: &http.Transport{MaxIdleConnsPerHost: 64}}}}
}

func (c *client) charge(ctx context.Context, tool, key string, claimed time.Time, in Charge) (out Charged, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return out, external.NotDone(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/"+tool, bytes.NewReader(body))
	if err != nil {
		return out, external.NotDone(err)
	}
	req.Header.Set(claimedHeader, strconv.FormatInt(claimed.UnixNano(), 10))
	if key != "" {
		req.Header.Set(keyHeader, key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = res.Body.Close() }()
	switch res.StatusCode {
	case http.StatusOK:
		return out, json.NewDecoder(res.Body).Decode(&out)
	case http.StatusPaymentRequired:
		return out, dedup.Final(errDeclined)
	case http.StatusTooManyRequests:
		return out, external.NotDone(errors.New(res.Status))
	}
	return out, errors.New(res.Status) // that of a 409 too: the first request still runs
}

func (c *client) find(ctx context.Context, tool string, in Charge) (out []Charged, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%s?op=%d", c.url, tool, in.Op), nil)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, errors.New(res.Status)
	}
	return out, json.NewDecoder(res.Body).Decode(&out)
}
