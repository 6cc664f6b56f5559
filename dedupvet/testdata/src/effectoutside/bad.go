package effectoutside

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/rpc"
	"net/smtp"
	"os/exec"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
	"google.golang.org/grpc"
)

type payments interface {
	Pay(ctx context.Context, amount int, opts ...grpc.CallOption) (int, error)
}

type refundsClient interface {
	Refund(ctx context.Context, in *connect.Request[int]) (*connect.Response[int], error)
}

type refundsHandler interface {
	Refund(ctx context.Context, in *connect.Request[int]) (*connect.Response[int], error)
}

type shop struct {
	d        *dedup.Deduper
	client   *http.Client
	trip     http.RoundTripper
	payments payments
	refunds  refundsClient
	local    refundsHandler
	rpc      *rpc.Client
}

func (s *shop) requests(ctx context.Context, call dedup.Call, req *http.Request) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		http.Get("https://example.com")                   // want `http.Get in an effect: an effect may be run again`
		http.Post("https://example.com", "", nil)         // want `http.Post in an effect`
		http.DefaultClient.Do(req)                        // want `\*http.Client.Do in an effect`
		s.client.Do(req)                                  // want `\*http.Client.Do in an effect`
		s.trip.RoundTrip(req)                             // want `http.RoundTripper.RoundTrip in an effect`
		s.payments.Pay(ctx, 1)                            // want `effectoutside.payments.Pay in an effect`
		s.refunds.Refund(ctx, nil)                        // want `effectoutside.refundsClient.Refund in an effect`
		s.local.Refund(ctx, nil)                          // in this process
		return 1, s.rpc.Call("Payments.Pay", 1, new(int)) // want `\*rpc.Client.Call in an effect`
	})
}

func (s *shop) commands(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		if err := exec.CommandContext(ctx, "mail").Run(); err != nil { // want `\*exec.Cmd.Run in an effect`
			return 0, err
		}
		_, err := exec.Command("ls").Output() // want `\*exec.Cmd.Output in an effect`
		return 1, err
	})
}

func (s *shop) connections(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		net.Dial("tcp", "example.com:80")                         // want `net.Dial in an effect`
		new(net.Dialer).DialContext(ctx, "tcp", "example.com:80") // want `\*net.Dialer.DialContext in an effect`
		tls.Dial("tcp", "example.com:443", nil)                   // want `tls.Dial in an effect`
		smtp.SendMail("", nil, "", nil, nil)                      // want `smtp.SendMail in an effect`
		return 1, nil
	})
}

func (s *shop) pauses(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		time.Sleep(time.Second) // want `time.Sleep in an effect: it holds the transaction`
		select {
		case <-time.After(time.Second): // want `time.After in an effect`
		case <-ctx.Done():
		}
		return 1, nil
	})
}

// On another goroutine, or deferred, it is repeated too.
func (s *shop) aside(ctx context.Context, call dedup.Call) {
	dedup.Do(ctx, s.d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		defer http.Get("https://example.com")           // want `http.Get in an effect`
		go func() { http.Get("https://example.com") }() // want `http.Get in an effect`
		return 1, nil
	})
}

var openTicket = tool.Tool[string, int]{Name: "open_ticket", Class: tool.Write, Run: open}

func open(ctx context.Context, tx pgx.Tx, in string) (int, error) {
	return 1, notify(in)
}

// notify is called by an effect, without a transaction.
func notify(text string) error {
	_, err := http.Post("https://example.com", text, nil) // want `http.Post in notify, which an effect calls`
	return err
}
