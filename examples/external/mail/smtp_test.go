package mail

import (
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// smtpServer is a mail server on the loopback interface.
type smtpServer struct {
	net.Listener

	mu    sync.Mutex
	mails []string
	// says has, for each command, the next answers instead of the usual ones. The command "." is
	// the end of a text, and "" the greeting.
	says map[string][]string
}

const (
	hangUp        = "hang up"           // ends the session without an answer
	loseAndHangUp = "lose, and hang up" // also loses the text
)

func newSMTPServer(t *testing.T, says map[string][]string) *smtpServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &smtpServer{Listener: l, says: says}
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() { s.serve(textproto.NewConn(conn)) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		sessions.Wait()
	})
	return s
}

// serve handles one session.
func (s *smtpServer) serve(conn *textproto.Conn) {
	defer conn.Close()
	usual := map[string]string{
		"": "220 mail.example", "EHLO": "250 mail.example", "MAIL": "250 ok", "RCPT": "250 ok",
		"DATA": "354 go ahead", ".": "250 queued", "QUIT": "221 bye",
	}
	for command := ""; ; {
		reply := s.reply(command, usual[command])
		if reply == hangUp || reply == loseAndHangUp || conn.PrintfLine("%s", reply) != nil {
			return
		}
		if reply == usual["DATA"] {
			lines, err := conn.ReadDotLines()
			if err != nil {
				return
			}
			s.queue(strings.Join(lines, "\n"))
			command = "."
			continue
		}
		line, err := conn.ReadLine()
		if err != nil {
			return
		}
		command, _, _ = strings.Cut(strings.ToUpper(line), " ")
	}
}

func (s *smtpServer) reply(command, usual string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if planned := s.says[command]; len(planned) > 0 {
		s.says[command] = planned[1:]
		return planned[0]
	}
	return usual
}

// queue queues a mail, unless another answer is set.
func (s *smtpServer) queue(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if planned := s.says["."]; len(planned) == 0 || planned[0] == hangUp {
		s.mails = append(s.mails, text)
	}
}

// queued returns the mails in the queue.
func (s *smtpServer) queued() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.mails...)
}
