package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/examples/helpdesk/db"
	"github.com/tooldedup/dedup/httpdedup"
)

// maxBody bounds the body of a request.
const maxBody = 1 << 20

type server struct {
	d       *dedup.Deduper
	queries *db.Queries
	log     *slog.Logger
}

// newServer returns the service's routes. Authentication is around the middleware: a replay runs
// neither the handler nor any layer inside the middleware.
func newServer(d *dedup.Deduper, log *slog.Logger, accounts accounts) (http.Handler, error) {
	s := &server{d: d, queries: db.New(d.Pool()), log: log}
	middleware, err := httpdedup.New(d, httpdedup.Options{
		Scope:   accountOf,
		MaxBody: maxBody,
		OnError: func(r *http.Request, err error) {
			log.ErrorContext(r.Context(), "answered 500", "method", r.Method, "pattern", r.Pattern, "error", err)
		},
	})
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(accounts.authenticate)
	// The client's Idempotency-Key names the call.
	r.Post("/tickets", middleware.Wrap("create_ticket", http.HandlerFunc(s.createTicket)).ServeHTTP)
	r.Post("/tickets/{id}/close", middleware.Wrap("close_ticket", http.HandlerFunc(s.closeTicket)).ServeHTTP)
	r.Get("/tickets", s.listTickets)
	r.Get("/operations/{tool}/{key}", middleware.Operations().ServeHTTP)
	// The content names the call: a mail's Message-ID, and an import's id and row.
	r.Post("/mails", s.receiveMail)
	r.Put("/imports/{id}", s.runImport)
	r.Get("/imports/{id}", s.showImport)
	return r, nil
}

// fail answers with the status and text for an error.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, detail := s.explain(r.Context(), err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	problem(w, status, detail)
}

// explain returns the status and text for an error.
func (s *server) explain(ctx context.Context, err error) (status int, detail string) {
	var refused *dedup.RefusedError
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return http.StatusForbidden, refused.Message
	case errors.Is(err, dedup.ErrKeyReused):
		return http.StatusUnprocessableEntity, "this was sent before with other content"
	case errors.Is(err, dedup.ErrExpired):
		return http.StatusGone, "this was done before, and its answer is gone"
	case dedup.IsRetryable(err): // a twin in flight, a lost reply to COMMIT, and the like
		return http.StatusServiceUnavailable, "send it again"
	case errors.Is(err, pgx.ErrNoRows):
		return http.StatusNotFound, "not found"
	case errors.As(err, &pg) && pg.ConstraintName != "":
		return http.StatusUnprocessableEntity, reasonOf(pg.ConstraintName)
	default:
		s.log.ErrorContext(ctx, "internal error", "error", err)
		return http.StatusInternalServerError, "internal error"
	}
}

// reasonOf explains a constraint to the client.
func reasonOf(constraint string) string {
	switch constraint {
	case "tickets_title_filled":
		return "a ticket needs a title"
	case "tickets_queue_fkey":
		return "there is no such queue"
	default:
		return "the database refused it: " + constraint
	}
}

func problem(w http.ResponseWriter, status int, detail string) {
	reply(w, status, map[string]string{"error": detail})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that left sends its key again
}

// read decodes a request's JSON body, or answers 400.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into); err != nil {
		problem(w, http.StatusBadRequest, "the body is no JSON of this form")
		return false
	}
	return true
}
