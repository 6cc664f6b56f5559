// Package refund is a tool that refunds payments through Stripe, and keeps the order beside
// it. It shows what each answer of an API with idempotency keys means for an attempt.
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

// Refund is what the tool is called with.
type Refund struct {
	Order   int    `json:"order"`
	Payment string `json:"payment"` // Stripe's id, pi_…
	Cents   int    `json:"cents"`
}

// Refunded is what is recorded.
type Refunded struct {
	ID     string `json:"id"`     // Stripe's, re_…
	Status string `json:"status"` // where it is pending, a webhook says what becomes of it
}

// Tool returns the tool for an API and a secret key of it.
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
		return out, err // Transport marks what was certainly not sent
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

// meaning says what an error makes known of the attempt.
func meaning(status int, e *apiError) error {
	if e.Type == "idempotency_error" {
		// The key came with other parameters before, such as those of an older release. That
		// request may have refunded.
		return fmt.Errorf("%w: %w", external.ErrExists, e)
	}
	switch status {
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden: // turned away before anything ran
		return external.NotDone(e)
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound: // and so it stays
		return dedup.Final(e)
	}
	// Nobody knows. With a 409 the first request with the key still runs. A 500 is replayed, so
	// that the key may be of no help.
	return e
}
