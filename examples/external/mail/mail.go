// Package mail is a tool that sends mail over SMTP. SMTP takes no key and has no look-up, so a mail
// is sent at most once. The tool is still useful, because it knows when nothing can have been sent.
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

// Mail has the arguments of the tool.
type Mail struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// Sent is the recorded result.
type Sent struct {
	MessageID string `json:"message_id"`
}

// Tool returns the tool for an SMTP server, such as "mail.example:25".
func Tool(server string) external.Tool[Mail, Sent] {
	return external.Tool[Mail, Sent]{
		Name: "send_mail",
		Perform: func(ctx context.Context, a external.Attempt, m Mail) (Sent, error) {
			// An operator can find the mail by its Message-ID in the server's log, and the
			// recipient's program may notice a second copy.
			sent := Sent{MessageID: a.Key + "@dedup.example"}
			if err := send(ctx, server, m, sent.MessageID); err != nil {
				return Sent{}, err
			}
			return sent, nil
		},
	}
}

// send sends a mail to the server. The server has the mail when it has read the dot that ends the
// text. Before that nothing is sent; after it only the server's answer tells whether the mail is
// sent.
func send(ctx context.Context, server string, m Mail, id string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", server)
	if err != nil {
		return external.NotDone(err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // net/smtp does not use a context
	host, _, _ := net.SplitHostPort(server)
	client, err := smtp.NewClient(conn, host) // StartTLS and Auth would come next
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

// begin sends the envelope and returns the writer for the text.
func begin(client *smtp.Client, m Mail) (io.WriteCloser, error) {
	if err := client.Mail(m.From); err != nil {
		return nil, err
	}
	if err := client.Rcpt(m.To); err != nil {
		return nil, err
	}
	return client.Data()
}

// certain returns an error for an answer of the server: 5xx is final, and 4xx means that nothing
// was sent. It returns nil if there is no answer.
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
