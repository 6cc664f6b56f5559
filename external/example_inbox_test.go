package external_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// PaymentEvent is the sender's message. It is delivered at least once, in any order.
type PaymentEvent struct {
	Source  string `json:"source"`
	ID      string `json:"id"` // from the sender, unique in the source, the same in every delivery
	Account string `json:"account"`
	Cents   int    `json:"cents"`
}

// Inbox is an endpoint for webhooks. Each event takes effect once.
type Inbox struct {
	d      *dedup.Deduper
	secret []byte
}

func (b *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	signature, err := hex.DecodeString(r.Header.Get("Webhook-Signature"))
	if err != nil || !hmac.Equal(signature, sign(b.secret, body)) {
		http.Error(w, "the signature is wrong", http.StatusUnauthorized)
		return
	}
	var e PaymentEvent
	if err := json.Unmarshal(body, &e); err != nil {
		http.Error(w, "the body is no event", http.StatusBadRequest)
		return
	}
	switch err := b.handle(r.Context(), e); {
	case err == nil, errors.Is(err, dedup.ErrRefused), errors.Is(err, dedup.ErrExpired):
		w.WriteHeader(http.StatusNoContent) // committed, now or earlier: no further delivery is needed
	case errors.Is(err, dedup.ErrInFlight): // another delivery is running
		w.Header().Set("Retry-After", "5")
		http.Error(w, "in flight", http.StatusServiceUnavailable)
	case errors.Is(err, dedup.ErrKeyReused): // one id, two contents: an operator must look
		http.Error(w, "the id was used for another event", http.StatusConflict)
	default:
		http.Error(w, "send it again", http.StatusInternalServerError)
	}
}

func (b *Inbox) handle(ctx context.Context, e PaymentEvent) error {
	key, err := dedup.KeyFromIntent("event", e.Source, e.ID)
	if err != nil {
		return err
	}
	_, err = dedup.Do(ctx, b.d, dedup.Call{
		Scope: "payments", Tool: "book_payment", Key: key,
		// The fields that the effect uses, not the body: senders change details between deliveries.
		Args: []any{e.Account, e.Cents},
		// Longer than the sender repeats an event.
		Retention: dedup.Retention{Result: 7 * 24 * time.Hour},
	}, func(ctx context.Context, tx pgx.Tx) (struct{}, error) {
		_, err := tx.Exec(ctx, `UPDATE accounts SET cents = cents + $1 WHERE name = $2`, e.Cents, e.Account)
		return struct{}{}, err
	})
	return err
}

func sign(secret, body []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return mac.Sum(nil)
}

// An inbox for webhooks: an event takes effect once, however often it is delivered.
func Example_inbox() {
	pool, drop := exampleDatabase(`CREATE TABLE accounts (name text, cents int)`, `INSERT INTO accounts VALUES ('ada', 0)`)
	defer drop()
	d, err := dedup.New(pool, nil)
	exampleMust(err)
	secret := []byte("whsec_17")
	server := httptest.NewServer(&Inbox{d, secret})
	defer server.Close()

	deliver := func(body string, signature []byte) {
		req, err := http.NewRequest(http.MethodPost, server.URL, bytes.NewReader([]byte(body)))
		exampleMust(err)
		req.Header.Set("Webhook-Signature", hex.EncodeToString(signature))
		res, err := http.DefaultClient.Do(req)
		exampleMust(err)
		exampleMust(res.Body.Close())
		fmt.Println(res.Status)
	}
	event := `{"source": "bank", "id": "evt_1", "account": "ada", "cents": 500}`
	deliver(event, sign(secret, []byte(event)))
	deliver(event, sign(secret, []byte(event)))
	deliver(event, sign([]byte("guessed"), []byte(event)))
	changed := `{"source": "bank", "id": "evt_1", "account": "eve", "cents": 500}`
	deliver(changed, sign(secret, []byte(changed)))

	var cents int
	exampleMust(pool.QueryRow(context.Background(), `SELECT cents FROM accounts`).Scan(&cents))
	fmt.Println("cents:", cents)
	http.DefaultClient.CloseIdleConnections()

	// Output:
	// 204 No Content
	// 204 No Content
	// 401 Unauthorized
	// 409 Conflict
	// cents: 500
}
