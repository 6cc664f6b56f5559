// Package refund is a tool that refunds payments through Stripe and updates the order in the same
// transaction as the record. It shows how to handle each answer of an API with idempotency keys.
package refund

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Refund has the arguments of the tool.
type Refund struct {
	Order   int    `json:"order"`
	Payment string `json:"payment"` // Stripe's id, pi_…
	Cents   int    `json:"cents"`
}

// Refunded is the recorded result.
type Refunded struct {
	ID     string `json:"id"`     // Stripe's, re_…
	Status string `json:"status"` // if it is pending, a webhook reports the final one
}

// Tool returns the tool for an API and its secret key.
func Tool(api, secret string) external.Tool[Refund, Refunded] {
	s := &stripe{api: api, secret: secret, http: &http.Client{Transport: &external.Transport{}}}
	return external.Tool[Refund, Refunded]{
		Name:    "refund",
		Perform: s.refund,
		// Stripe removes keys once they are at least 24 hours old.
		KeyKept: 23 * time.Hour,
		Ref:     func(out Refunded) string { return out.ID },

		Finish: func(ctx context.Context, tx pgx.Tx, in Refund, _ Refunded) error {
			return setOrder(ctx, tx, in.Order, "refunded")
		},
		Refused: func(ctx context.Context, tx pgx.Tx, in Refund, _ error) error {
			return setOrder(ctx, tx, in.Order, "not refundable")
		},
	}
}

func setOrder(ctx context.Context, tx pgx.Tx, order int, state string) error {
	_, err := tx.Exec(ctx, `UPDATE orders SET state = $1 WHERE id = $2`, state, order)
	return err
}

type stripe struct {
	api, secret string
	http        *http.Client
}

// refund makes one attempt.
func (s *stripe) refund(ctx context.Context, a external.Attempt, in Refund) (out Refunded, err error) {
	form := url.Values{"payment_intent": {in.Payment}, "amount": {strconv.Itoa(in.Cents)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.api+"/v1/refunds", strings.NewReader(form.Encode()))
	if err != nil {
		return out, external.NotDone(err)
	}
	req.SetBasicAuth(s.secret, "")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Idempotency-Key", a.Key)
	res, err := s.http.Do(req)
	if err != nil {
		return out, err // Transport marks requests that were certainly not sent
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK {
		return out, json.NewDecoder(res.Body).Decode(&out)
	}
	var body struct{ Error apiError }
	if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
		return out, fmt.Errorf("stripe: %s, and no error in the body: %w", res.Status, err)
	}
	return out, meaning(res.StatusCode, &body.Error)
}

// apiError is the error object of Stripe's API.
type apiError struct{ Type, Code, Message string }

func (e *apiError) Error() string { return fmt.Sprintf("stripe: %s %s: %s", e.Type, e.Code, e.Message) }

// meaning returns an error that tells package external the outcome of the attempt.
func meaning(status int, e *apiError) error {
	if e.Type == "idempotency_error" {
		// The key was used with other parameters before, for instance by an older release. That
		// request may have refunded.
		return fmt.Errorf("%w: %w", external.ErrExists, e)
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden: // refused before anything ran
		return external.NotDone(e)
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound: // will be refused again
		return dedup.Final(e)
	}
	// The outcome is unknown. A 409 means that the first request with the key is running. A 500 is
	// replayed, so another request with the key may not help.
	return e
}
