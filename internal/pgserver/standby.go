package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// ErrNoBaseBackup is returned by [Server.StartStandby] where the programs of the
// server come without pg_basebackup, as those that are downloaded do.
var ErrNoBaseBackup = errors.New("pgserver: there is no pg_basebackup beside the server's programs; install those of the distribution, for example `apt-get install postgresql`")

// StartStandby copies the server s and starts a hot standby on the copy, which
// follows s under the given name: the one that synchronous_standby_names calls
// it by. Of the options Durable, MaxConnections and Settings count, and
// max_connections must not be lower than that of s. The standby is a server of
// its own, to be stopped like any other. Cancelling ctx ends the start.
//
// It returns [ErrNotPrivate] if s is not private, [ErrNoBaseBackup] where the
// copy cannot be made, and otherwise errors that hold what the programs wrote.
func (s *Server) StartStandby(ctx context.Context, name string, opts *Options) (*Server, error) {
	if s.cluster == nil {
		return nil, ErrNotPrivate
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	c, err := newCluster(s.cluster.programs, &o)
	if err != nil {
		return nil, err
	}
	err = c.copyFrom(ctx, s.cluster, name)
	if err == nil {
		err = c.firstLaunch(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.stop(context.WithoutCancel(ctx)))
	}
	server := c.server()
	server.way = s.way
	server.Source += ", a standby named " + name
	return server, nil
}

// copyFrom fills the data folder from a server that runs, so that it begins as
// its standby.
func (c *cluster) copyFrom(ctx context.Context, primary *cluster, name string) error {
	backup := program(c.programs.dir, "pg_basebackup")
	if _, err := os.Stat(backup); err != nil {
		return ErrNoBaseBackup
	}
	cmd := exec.CommandContext(ctx, backup,
		"--pgdata="+c.dataDir(), "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--write-recovery-conf",
		fmt.Sprintf("--dbname=host=127.0.0.1 port=%d user=%s application_name='%s'", primary.port, clusterUser, name))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := startProcess(c.prepare(cmd))
	if err == nil {
		<-p.done
		err = p.err
	}
	if err != nil {
		return fmt.Errorf("pg_basebackup: %w%s\n%s", err, c.accountHint(), tail(out.String()))
	}
	return nil
}
