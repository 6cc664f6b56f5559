// Which says on one line which PostgreSQL server tests find or start: go test
// shows nothing of what packages that pass have said.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/tooldedup/dedup/internal/pgserver"
)

func main() {
	ctx := context.Background()
	server, err := pgserver.Start(ctx, nil)
	if err == nil {
		fmt.Fprintln(os.Stdout, "postgres:", server.Source)
		err = server.Stop(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
