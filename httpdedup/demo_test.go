package httpdedup_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/httpdedup"
)

const demoTables = `
CREATE TABLE orders (
  id        int  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account   text NOT NULL,
  item      text NOT NULL,
  cancelled bool NOT NULL DEFAULT false
);`

// newDemo returns the shop's routes:
//
//	POST /orders              {"item": "lamp"}: 201, once for each key
//	POST /orders/{id}/cancel  204; 409, final, where it is cancelled; 404, which a retry may change
//	POST /exports             {"seconds": 2}: 200 after so long
//	GET  /orders              how many orders there are
//	GET  /operations/{tool}/{key}
func newDemo(pool *pgxpool.Pool) (http.Handler, error) {
	d, err := dedup.New(pool, nil)
	if err != nil {
		return nil, err
	}
	m, err := httpdedup.New(d, httpdedup.Options{Scope: demoAccount, MaxWait: 100 * time.Millisecond, MaxBody: 10_000})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /orders", m.Wrap("create_order", http.HandlerFunc(createOrder)))
	mux.Handle("POST /orders/{id}/cancel", m.Wrap("cancel_order", http.HandlerFunc(cancelOrder)))
	mux.Handle("POST /exports", m.Wrap("export", http.HandlerFunc(export)))
	mux.Handle("GET /operations/{tool}/{key}", m.Operations())
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, r *http.Request) {
		var count int
		if err := pool.QueryRow(r.Context(), `SELECT count(*) FROM orders`).Scan(&count); err != nil {
			outOfOrder(w)
			return
		}
		fmt.Fprintf(w, "{\"count\":%d}\n", count)
	})
	return mux, nil
}

// demoAccount says from a token who sends a request.
func demoAccount(r *http.Request) (string, error) {
	name, ok := map[string]string{"Bearer acme-token": "acme", "Bearer globex-token": "globex"}[r.Header.Get("Authorization")]
	if !ok {
		return "", &httpdedup.ScopeError{Status: http.StatusUnauthorized, Challenge: `Bearer realm="shop"`, Err: errors.New("unknown token")}
	}
	return name, nil
}

func createOrder(w http.ResponseWriter, r *http.Request) {
	var in struct{ Item string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Item == "" {
		http.Error(w, "send an item", http.StatusBadRequest)
		return
	}
	name, err := demoAccount(r)
	if err != nil {
		outOfOrder(w)
		return
	}
	tx, _ := httpdedup.Tx(r.Context())
	var id int
	if err := tx.QueryRow(r.Context(), `INSERT INTO orders (account, item) VALUES ($1, $2) RETURNING id`, name, in.Item).Scan(&id); err != nil {
		outOfOrder(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("/orders/%d", id))
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, "{\"id\":%d}\n", id)
}

func cancelOrder(w http.ResponseWriter, r *http.Request) {
	name, err := demoAccount(r)
	if err != nil {
		outOfOrder(w)
		return
	}
	tx, _ := httpdedup.Tx(r.Context())
	var cancelled bool
	err = tx.QueryRow(r.Context(), `
		SELECT cancelled
		FROM orders
		WHERE id::text = $1 AND account = $2
		FOR UPDATE`, r.PathValue("id"), name).Scan(&cancelled)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.Error(w, "no such order", http.StatusNotFound)
	case err != nil:
		outOfOrder(w)
	case cancelled:
		httpdedup.Final(r.Context())
		http.Error(w, "cancelled already", http.StatusConflict)
	default:
		if _, err := tx.Exec(r.Context(), `UPDATE orders SET cancelled = true WHERE id::text = $1`, r.PathValue("id")); err != nil {
			outOfOrder(w)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func export(w http.ResponseWriter, r *http.Request) {
	var in struct{ Seconds float64 }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, "send seconds", http.StatusBadRequest)
		return
	}
	tx, _ := httpdedup.Tx(r.Context())
	if _, err := tx.Exec(r.Context(), `SELECT pg_sleep($1)`, in.Seconds); err != nil {
		outOfOrder(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintln(w, `{"rows":3}`)
}

// outOfOrder answers for the server's own faults.
func outOfOrder(w http.ResponseWriter) {
	http.Error(w, "the shop is out of order", http.StatusInternalServerError)
}
