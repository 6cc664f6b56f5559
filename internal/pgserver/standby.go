package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ErrNoBaseBackup is returned by [Server.StartStandby] where the programs of the
// server come without pg_basebackup, as those that are downloaded do.
var ErrNoBaseBackup = errors.New("pgserver: there is no pg_basebackup beside the server's programs; install those of the distribution, for example `apt-get install postgresql`")

// StartStandby copies the server s and starts a hot standby on the copy, which
// follows s under the given name: the one that synchronous_standby_names calls
// it by. Of the options Durable and Settings count, and
// max_connections must not be lower than that of s. The standby is a server of
// its own, to be stopped like any other. Cancelling ctx ends the start.
//
// It returns [ErrNotPrivate] if s is not private, [ErrNoBaseBackup] where the
// copy cannot be made, and otherwise errors that hold what the programs wrote.
func (s *Server) StartStandby(ctx context.Context, name string, opts *Options) (*Server, error) {
	if s.cluster == nil {
		return nil, ErrNotPrivate
	}
	if opts == nil {
		opts = &Options{}
	}
	programs := s.cluster.programs
	if _, err := os.Stat(filepath.Join(programs.dir, "pg_basebackup")); err != nil {
		return nil, ErrNoBaseBackup
	}
	standby, err := startCluster(ctx, programs, opts, func(c *cluster) error {
		return c.run(ctx, "pg_basebackup",
			"--pgdata="+c.DataDir(), "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf",
			fmt.Sprintf("--dbname=host=127.0.0.1 port=%d user=%s application_name='%s'", s.cluster.port, clusterUser, name))
	})
	if err != nil {
		return nil, err
	}
	standby.Way = s.Way
	standby.Source += ", a standby named " + name
	return standby, nil
}
