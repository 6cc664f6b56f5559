// Package mail is a tool that sends mail over SMTP, which offers the least: it takes no key, and
// what was sent cannot be looked up. So a mail is sent at most once. What makes the tool
// useful is that it knows when nothing can have been sent.
package mail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// Mail is what the tool is called with.
type Mail struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// Sent is what is recorded.
type Sent struct {
	MessageID string `json:"message_id"`
}

// Tool returns the tool for an SMTP server, such as "mail.example:25".
func Tool(server string) external.Tool[Mail, Sent] {
	return external.Tool[Mail, Sent]{
		Name: "send_mail",
		Perform: func(ctx context.Context, a external.Attempt, m Mail) (Sent, error) {
			// By the Message-ID a person finds the mail in the server's log, and a reader's program
			// may notice a second copy.
			sent := Sent{MessageID: a.Key + "@dedup.example"}
			if err := send(ctx, server, m, sent.MessageID); err != nil {
				return Sent{}, err
			}
			return sent, nil
		},
	}
}

// send hands a mail to the server, which has it when it has read the dot that ends the text.
// Before that nothing is sent, and after that only its answer says whether it is.
func send(ctx context.Context, server string, m Mail, id string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return external.NotDone(err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // net/smtp knows no context
	host, _, _ := net.SplitHostPort(server)
	client, err := smtp.NewClient(conn, host) // StartTLS and Auth go behind it
	if err != nil {
		return external.NotDone(err)
	}
	text, err := begin(client, m)
	if err == nil {
		_, err = io.WriteString(text, format(m, id))
	}
	if err != nil {
		return cmp.Or(certain(err), external.NotDone(err))
	}
	if err := text.Close(); err != nil { // sends the dot, and reads the answer
		return cmp.Or(certain(err), err)
	}
	_ = client.Quit()
	return nil
}

// begin sends the envelope, and returns where the text goes.
func begin(client *smtp.Client, m Mail) (io.WriteCloser, error) {
	if err := client.Mail(m.From); err != nil {
		return nil, err
	}
	if err := client.Rcpt(m.To); err != nil {
		return nil, err
	}
	return client.Data()
}

// certain is what the server has answered: 5xx is never, 4xx not now. It is nil where there
// is no answer.
func certain(err error) error {
	reply, ok := errors.AsType[*textproto.Error](err)
	switch {
	case !ok:
		return nil
	case reply.Code >= 500:
		return dedup.Final(err)
	}
	return external.NotDone(err)
}

func format(m Mail, id string) string {
	header := fmt.Sprintf("From: <%s>\nTo: <%s>\nSubject: %s\nMessage-ID: <%s>\nContent-Type: text/plain; charset=utf-8\n\n",
		m.From, m.To, mime.QEncoding.Encode("utf-8", m.Subject), id)
	return strings.ReplaceAll(header+m.Text, "\n", "\r\n")
}
