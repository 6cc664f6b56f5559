package pgserver

import (
	"context"
	"errors"
	"sync"
)

// ErrNotPrivate is returned by [Server.Kill], [Server.Restart] and [Server.StartStandby] for a
// server that is not a process of ours: one named by DEDUP_DATABASE_URL or one in a container.
// Set [Options.Private] to get one that is.
var ErrNotPrivate = errors.New("the server is not private: start it with Options.Private")

// A Server is a running PostgreSQL server. Its methods may be called from any
// goroutine.
type Server struct {
	// URL connects to a database of the server, "postgres" unless
	// DEDUP_DATABASE_URL says otherwise, as a user who may create databases.
	// Kill and Restart do not change it.
	URL string

	// Source says on one line which way was taken, and which ways failed
	// before it: "PostgreSQL 15.18 from /usr/lib/postgresql/15/bin, data in a
	// temporary folder below /tmp".
	Source string

	// Way is the way that was taken.
	Way Way

	cluster *cluster                    // nil unless the server is private
	stop    func(context.Context) error // nil where there is nothing to stop

	stopOnce sync.Once
	stopErr  error
}

// Start finds a server or starts one; see the package's comment for the order of
// the ways. Nil options mean the defaults. Cancelling ctx ends the search, with the
// context's error, wrapped; it does not stop a server that Start has returned. If
// no way led to a server the error lists them all.
func Start(ctx context.Context, opts *Options) (*Server, error) {
	if opts == nil {
		opts = &Options{}
	}
	return find(ctx, waysTo(opts), opts)
}

// Stop ends a server that [Start] started and removes its data. It does nothing
// for a server named by DEDUP_DATABASE_URL. Further calls return the first
// call's error.
//
// A private server gets ten seconds for a fast shutdown, which rolls open
// transactions back, and is ended by force after that or as soon as ctx is done.
func (s *Server) Stop(ctx context.Context) error {
	s.stopOnce.Do(func() {
		if s.stop != nil {
			s.stopErr = s.stop(ctx)
		}
	})
	return s.stopErr
}

// Kill ends every process of the server with SIGKILL, as a crash would. The data
// stays for [Server.Restart]. It does nothing for a server that does not run, and
// returns [ErrNotPrivate] for one that is not private.
func (s *Server) Kill() error {
	if s.cluster == nil {
		return ErrNotPrivate
	}
	return s.cluster.kill()
}

// Restart starts a server again that was killed, on its data and its port, and
// returns when it has recovered and accepts connections. A server that still
// runs is killed first. Cancelling ctx ends the wait and the server with it.
//
// It returns [ErrNotPrivate] for a server that is not private, an error after
// [Server.Stop], and otherwise errors that hold the end of the server's log.
func (s *Server) Restart(ctx context.Context) error {
	if s.cluster == nil {
		return ErrNotPrivate
	}
	return s.cluster.restart(ctx)
}

// DataDir returns the data folder of a private server, and "" for any other.
func (s *Server) DataDir() string {
	if s.cluster == nil {
		return ""
	}
	return s.cluster.dataDir()
}

// PID returns the process id of a private server's postmaster, and 0 for any
// other server and while the server does not run.
func (s *Server) PID() int {
	if s.cluster == nil {
		return 0
	}
	return s.cluster.pid()
}
