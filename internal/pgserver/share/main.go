// Share finds or starts a PostgreSQL server, says on one line which, and runs a command whose
// tests share it: go test shows nothing of what packages that pass have said, and a server for each
// package costs seconds.
//
//	go run ./internal/pgserver/share [-programs FOLDER] go test ./...
//
// With -programs it starts the programs of that folder, which has one version of PostgreSQL.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"

	"github.com/tooldedup/dedup/internal/pgserver"
)

// connsPerPackage is the maximum number of connections of one package's tests. go test runs as many
// packages at once as there are processors.
const connsPerPackage = 150

func main() {
	code, err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// run returns the command's exit code.
func run(ctx context.Context, args []string) (code int, err error) {
	flags := flag.NewFlagSet("share", flag.ContinueOnError)
	programs := flags.String("programs", "", "the folder with initdb and postgres")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	command := flags.Args()
	if len(command) == 0 {
		return 2, errors.New("usage: share [-programs FOLDER] COMMAND [ARGUMENT...]")
	}
	// Ctrl-C reaches the command as well. The server is stopped when that has ended.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	server, err := pgserver.Start(ctx, &pgserver.Options{
		BinDir:   *programs,
		Settings: map[string]string{"max_connections": strconv.Itoa(min(1000, connsPerPackage*max(2, runtime.NumCPU())))},
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Stop(ctx)) }()
	fmt.Fprintln(os.Stdout, "postgres:", server.Source)

	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	// A server that DEDUP_DATABASE_URL names is found by every process, and keeps the databases of
	// failed tests.
	if server.Way != pgserver.WayURL {
		cmd.Env = append(cmd.Env, "DEDUP_SHARED_SERVER="+server.URL)
	}
	err = cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, failed.ExitCode()), nil
	}
	return 0, err
}
