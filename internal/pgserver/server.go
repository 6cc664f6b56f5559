package pgserver

import (
	"context"
	"errors"
	"sync"
)

// ErrNotPrivate is returned by Kill, Restart and StartStandby for a
// server that is not a process of ours: one named by DEDUP_DATABASE_URL or one in a container.
// Set [Options.Private] to get one that is.
var ErrNotPrivate = errors.New("the server is not private: start it with Options.Private")

// A Server is a running PostgreSQL server. A private one can be killed and started again. Its
// methods may be called from any goroutine.
type Server struct {
	// URL connects to a database of the server, as a role that may create databases. The database
	// is "postgres" unless DEDUP_DATABASE_URL names another. Kill and Restart do not change the
	// URL.
	URL string

	// Source says on one line which way was taken, and which ways failed
	// before it: "PostgreSQL 15.18 from /usr/lib/postgresql/15/bin, data in a
	// temporary folder below /tmp".
	Source string

	// Way is the way that was taken.
	Way Way

	*cluster                             // nil unless the server is private
	stop     func(context.Context) error // nil where there is nothing to stop

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
