package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/examples/helpdesk/db"
)

// mail is a delivery of a mail provider. The provider repeats it until it gets 2xx or 4xx. It sends
// no Idempotency-Key: the Message-ID is the key.
type mail struct {
	MessageID string `json:"message_id"`
	From      string `json:"from"`
	Subject   string `json:"subject"`
}

type received struct {
	Ticket     db.Ticket `json:"ticket"`
	Deliveries int32     `json:"deliveries"`
}

var errSenderBlocked = errors.New("the sender is blocked")

func (s *server) receiveMail(w http.ResponseWriter, r *http.Request) {
	var in mail
	if !read(w, r, &in) {
		return
	}
	key, err := dedup.KeyFromIntent("mail", in.MessageID)
	if err != nil {
		problem(w, http.StatusBadRequest, "a mail needs a message_id")
		return
	}
	call := dedup.Call{Scope: account(r.Context()), Tool: "open_ticket_of_mail", Key: key, Args: in}
	out, err := s.receive(r.Context(), call, in)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	reply(w, http.StatusOK, out)
}

// receive opens a mail's ticket once and counts every delivery of the mail, in one transaction. A
// refusal is committed too, with its record and its delivery. An error rolls everything back, and
// the provider delivers again.
func (s *server) receive(ctx context.Context, call dedup.Call, in mail) (out received, err error) {
	var refused *dedup.RefusedError
	err = pgx.BeginFunc(ctx, s.d.Pool(), func(tx pgx.Tx) error {
		result, err := dedup.DoTx(ctx, s.d, tx, call, func(ctx context.Context, tx pgx.Tx) (db.Ticket, error) {
			return s.openTicketOfMail(ctx, tx, call.Scope, in)
		})
		delivery := db.CountDeliveryParams{Account: call.Scope, MessageID: in.MessageID}
		switch {
		case errors.As(err, &refused):
		case err != nil:
			return err
		default:
			out.Ticket, delivery.TicketID = result.Value, &result.Value.ID
		}
		out.Deliveries, err = s.queries.WithTx(tx).CountDelivery(ctx, delivery)
		return err
	})
	if err == nil && refused != nil {
		err = refused
	}
	return out, err
}

func (s *server) openTicketOfMail(ctx context.Context, tx pgx.Tx, account string, in mail) (db.Ticket, error) {
	queries := s.queries.WithTx(tx)
	blocked, err := queries.SenderIsBlocked(ctx, db.SenderIsBlockedParams{Account: account, Sender: in.From})
	if err != nil {
		return db.Ticket{}, err
	}
	if blocked {
		return db.Ticket{}, dedup.Final(errSenderBlocked)
	}
	return queries.CreateTicket(ctx, newTicket{Queue: "support", Title: in.Subject}.of(account))
}
