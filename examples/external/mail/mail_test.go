package mail

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// sender sends one mail, any number of times.
type sender struct {
	t     *testing.T
	tools *external.Tools
	mail  *external.Handle[Mail, Sent]
}

func newSender(t *testing.T, tool external.Tool[Mail, Sent]) *sender {
	t.Helper()
	d, err := dedup.New(pgtest.New(t).Pool(t), nil)
	require.NoError(t, err)
	tools, err := external.New(d, &external.Options{Lease: 10 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tools.Close(context.WithoutCancel(t.Context()))) })
	mail, err := external.Add(tools, tool)
	require.NoError(t, err)
	return &sender{t, tools, mail}
}

func (s *sender) send() (dedup.Result[Sent], error) {
	return s.mail.Do(s.t.Context(), dedup.Call{Scope: "acme", Key: "order 117, receipt"},
		Mail{From: "shop@dedup.example", To: "ada@mail.example", Subject: "Your receipt", Text: "Thank you.\n.\n"})
}

func TestSend(t *testing.T) {
	t.Parallel()
	server := newSMTPServer(t, nil)
	s := newSender(t, Tool(server.Addr().String()))
	first, err := s.send()
	require.NoError(t, err)
	again, err := s.send()
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, first.Value, again.Value)
	require.Len(t, server.queued(), 1)
	require.Contains(t, server.queued()[0], "Message-ID: <"+first.Value.MessageID+">")
	require.Contains(t, server.queued()[0], "Subject: Your receipt\n")
	require.Contains(t, server.queued()[0], "\n\nThank you.\n.")
}

// TestLostAnswer: the server has the whole text, and its answer is lost. It is unknown whether the
// mail was queued, so the mail is parked. Every call reports that until an operator has found out.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for ends, queued := range map[string]bool{hangUp: true, loseAndHangUp: false} {
		server := newSMTPServer(t, map[string][]string{".": {ends}})
		s := newSender(t, Tool(server.Addr().String()))
		var parked *external.ParkedError
		for range 2 {
			_, err := s.send()
			require.ErrorAs(t, err, &parked)
		}
		require.Equal(t, queued, len(server.queued()) == 1)
		require.Contains(t, parked.Operation.Note, "no answer: EOF")
		require.False(t, parked.Operation.SentAt.IsZero())

		// The server's log shows the mail, or does not.
		id := parked.Operation.ProviderKey + "@dedup.example"
		verdict := external.Never("not in the server's log")
		if queued {
			require.Contains(t, server.queued()[0], id)
			verdict = external.Happened(Sent{MessageID: id}, "in the server's log")
		}
		require.NoError(t, s.tools.Resolve(t.Context(), parked.Operation, verdict))
		result, err := s.send()
		require.NoError(t, err)
		require.Equal(t, id, result.Value.MessageID)
		require.Len(t, server.queued(), 1)
	}
}

// TestFailsBefore: the session ends before the text does, or the server asks to send the mail
// later. The mail is sent again, once.
func TestFailsBefore(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]map[string][]string{
		"Greeting":        {"": {hangUp}},
		"ServiceNotReady": {"": {"421 too many connections"}},
		"Envelope":        {"RCPT": {hangUp}},
		"Greylisted":      {"RCPT": {"451 come back later"}},
		"Data":            {"DATA": {hangUp}},
		"NotNowAfterText": {".": {"452 no space left"}},
		"SeveralTimes":    {"": {hangUp}, "MAIL": {hangUp}, "DATA": {"451 busy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newSMTPServer(t, says)
			s := newSender(t, Tool(server.Addr().String()))
			result, err := s.send()
			require.NoError(t, err)
			require.False(t, result.Replayed)
			require.Len(t, server.queued(), 1)
		})
	}
}

// TestNotConnected starts without a server.
func TestNotConnected(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	s := newSender(t, Tool(closed.Addr().String()))
	_, err = s.mail.Do(t.Context(), dedup.Call{Scope: "acme", Key: "k", MaxWait: -1}, Mail{From: "a@b.example", To: "c@d.example"})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	require.NoError(t, s.tools.Close(t.Context())) // no attempt runs after it
	status, err := s.tools.Status(t.Context(), "acme", "send_mail", "k")
	require.NoError(t, err)
	op := status.Operation
	require.Equal(t, external.StatePending, op.State, "nothing that was sent has an effect")
}

// TestRefused records the server's refusal.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"RCPT", "."} {
		server := newSMTPServer(t, map[string][]string{command: {"550 no such user"}})
		s := newSender(t, Tool(server.Addr().String()))
		for _, replayed := range []bool{false, true} {
			_, err := s.send()
			var refused *dedup.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, replayed, refused.Replayed)
			require.Contains(t, refused.Message, "no such user")
		}
		require.Empty(t, server.queued())
	}
}
