// Walk makes one first call of dedup.Do on a real server, and writes the counters
// of what the library ran for it to the folder in its argument. It is built with
// -cover -covermode=atomic.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/coverage"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

func main() {
	if err := walk(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func walk(ctx context.Context, folder string) (err error) {
	s, err := bed.Start(ctx, bed.Options{Fast: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(ctx)) }()
	if err := way.CreateRecords(ctx, s.Admin); err != nil {
		return err
	}
	d, err := dedup.New(s.Admin, nil)
	if err != nil {
		return err
	}
	// The first call of a Deduper also does what later ones need not.
	if err := call(ctx, d, "before"); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := call(ctx, d, "counted"); err != nil {
		return err
	}
	return errors.Join(coverage.WriteCountersDir(folder), coverage.WriteMetaDir(folder))
}

func call(ctx context.Context, d *dedup.Deduper, key string) error {
	_, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "book", Key: key, Args: map[string]string{"seat": "12A"}},
		func(ctx context.Context, tx pgx.Tx) (id int, err error) {
			err = tx.QueryRow(ctx, "SELECT 1").Scan(&id)
			return id, err
		})
	return err
}
