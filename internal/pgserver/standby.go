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

// StartStandby copies the server s and starts a hot standby on the copy. The standby follows s
// under the given name, which synchronous_standby_names can use. Of the options only Durable and
// Settings apply, and max_connections must not be lower than on s. Stop the standby like any other
// server. If ctx ends, the start ends with it.
//
// It returns [ErrNotPrivate] if s is not private, and [ErrNoBaseBackup] without pg_basebackup.
// Other errors include the output of the programs.
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
