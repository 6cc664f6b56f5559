package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/examples/helpdesk/db"
	"github.com/tooldedup/dedup/httpdedup"
)

// newTicket is the body of a request, and a row of an import.
type newTicket struct {
	Queue string `json:"queue"`
	Title string `json:"title"`
}

func (n newTicket) of(account string) db.CreateTicketParams {
	return db.CreateTicketParams{Account: account, Queue: n.Queue, Title: n.Title}
}

// createTicket writes through the middleware's transaction: the ticket and the answer are committed
// together, before the answer is sent.
func (s *server) createTicket(w http.ResponseWriter, r *http.Request) {
	var in newTicket
	if !read(w, r, &in) {
		return
	}
	tx, _ := httpdedup.Tx(r.Context())
	ticket, err := s.queries.WithTx(tx).CreateTicket(r.Context(), in.of(account(r.Context())))
	if err != nil {
		s.fail(w, r, err) // rolls back and is not kept: the client may correct the ticket
		return
	}
	w.Header().Set("Location", fmt.Sprintf("/tickets/%d", ticket.ID))
	reply(w, http.StatusCreated, ticket)
}

// closeTicket shows a 4xx that is kept.
func (s *server) closeTicket(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(chi.URLParam(r, "id"), 10, 64)
	if err != nil {
		problem(w, http.StatusNotFound, "not found")
		return
	}
	tx, _ := httpdedup.Tx(r.Context())
	queries := s.queries.WithTx(tx)
	ticket, err := queries.CloseTicket(r.Context(), db.CloseTicketParams{Account: account(r.Context()), ID: id})
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = queries.GetTicket(r.Context(), db.GetTicketParams{Account: account(r.Context()), ID: id})
		if err == nil {
			httpdedup.Final(r.Context()) // a retry gets this answer, whatever happens to the ticket
			problem(w, http.StatusConflict, "the ticket is closed already")
			return
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, ticket)
}

func (s *server) listTickets(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64) // 0: from the first
	tickets, err := s.queries.ListTickets(r.Context(), db.ListTicketsParams{Account: account(r.Context()), AfterID: after})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, tickets)
}
