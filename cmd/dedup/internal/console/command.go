// Package console has the command `dedup console`. It serves the console of package dedupweb on
// this machine to the one person who has its link.
package console

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/cmd/dedup/internal/cli"
	"github.com/tooldedup/dedup/dedupweb"
	"github.com/tooldedup/dedup/internal/exit"
	"github.com/tooldedup/dedup/internal/inspect"
)

const long = `Serve the console of package dedupweb on this machine, and print a link to it. The link works
once: the browser that opens it gets a cookie, and only that browser has access. There is no TLS,
so the console listens on loopback addresses only.

Keys are shown. Results are shown with --results. Changes require --act. The console does not list
calls in flight, because they belong to other processes.

The command runs until it is interrupted.`

// closing is how long serve waits for responses in progress.
const closing = time.Second

// serving has the flags of `dedup console`.
type serving struct {
	listen, actor string
	results, act  bool
}

// Command returns the command `dedup console`.
func Command() *cobra.Command {
	var q cli.Query
	var s serving
	cmd := q.Command(&cobra.Command{
		Use:     "console",
		Short:   "Serve the console on this machine",
		Long:    long,
		Example: `  dedup console --act`,
		PreRunE: func(*cobra.Command, []string) error {
			if s.actor == "" {
				return exit.Usage("give an --actor")
			}
			return loopback(s.listen)
		},
	}, "", s.run)
	set := cmd.Flags()
	set.StringVar(&s.listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 picks a free port")
	set.BoolVar(&s.results, "results", false, "also show results and refusals")
	set.BoolVar(&s.act, "act", false, "allow resets and verdicts")
	cli.AddActor(cmd, &s.actor)
	return cmd
}

func (s *serving) run(cmd *cobra.Command, db *inspect.Database, _ []string) error {
	var config net.ListenConfig
	listener, err := config.Listen(cmd.Context(), "tcp", s.listen)
	if err != nil {
		return err
	}
	login := newLogin(dedupweb.Access{Name: s.actor, Keys: true, Results: s.results, Act: s.act}, listener.Addr().(*net.TCPAddr).Port)
	console, err := dedupweb.New(db.D, dedupweb.Options{Access: login.access, Tools: db.Tools})
	if err != nil {
		_ = listener.Close()
		return err
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s%s\n", listener.Addr(), login.link()); err != nil {
		_ = listener.Close()
		return fmt.Errorf("writing: %w", err)
	}
	return serve(cmd.Context(), listener, login.before(console))
}

// serve serves until ctx ends.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if err := server.Shutdown(soon); err != nil { // a stream
		_ = server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return context.Cause(ctx)
}

// loopback returns an [*exit.UsageError] for an address that other machines reach.
func loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return exit.Usage("--listen: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return exit.Usage("--listen: %q is not a loopback address such as 127.0.0.1:8080: there is no TLS; mount package dedupweb in a server that has it", address)
	}
	return nil
}
