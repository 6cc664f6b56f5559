// Caller makes calls of the library, as a process of its own that a test commands: a line
// of JSON on stdin is a command, a line on stdout its answer. It is built with two versions
// of the library, so that it uses only what both of them have.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
)

// command is what a test asks for.
type command struct {
	ID int64
	Op string // a way to call, or the name of another function below
	// Keys are the calls of a batch; every other operation takes the first.
	Keys []string
	Args json.RawMessage
	// Refuse makes the effect refuse. Gate makes it wait while the test holds the gate.
	Refuse, Gate bool
	// NoWait answers at once where a twin is in flight.
	NoWait bool
	// Version is the migration to go to; 0 is the last.
	Version int64
}

// answer is what a test gets.
type answer struct {
	ID      int64
	Results []result
	Err     string
	// Swept is what a sweep did; Texts are keys and fingerprints.
	Swept *dedup.SweepResult
	Texts []string
	Freed bool
}

// result is what became of a call.
type result struct {
	Effect   effectRow
	Replayed bool
	Err      string
}

// effectRow is the row that an effect has written, and who wrote it.
type effectRow struct {
	ID   int64  `json:"id"`
	Side string `json:"side"`
}

type caller struct {
	d    *dedup.Deduper
	side string
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run answers commands, each on a goroutine of its own, until stdin ends. The arguments are
// the database's URL, the order and the side's name.
func run(ctx context.Context) error {
	url, order, side := os.Args[1], os.Args[2], os.Args[3]
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	var opts dedup.Options
	if order == "claim" {
		opts.Order = dedup.ClaimFirst
	}
	d, err := dedup.New(pool, &opts)
	if err != nil {
		return err
	}
	c := &caller{d: d, side: side}
	out := json.NewEncoder(os.Stdout)
	var writing sync.Mutex
	var running sync.WaitGroup
	defer running.Wait()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var cmd command
		if err := json.Unmarshal(in.Bytes(), &cmd); err != nil {
			return err
		}
		running.Go(func() {
			a := c.answer(ctx, cmd)
			writing.Lock()
			defer writing.Unlock()
			_ = out.Encode(a) // the test that is gone needs no answer
		})
	}
	return nil
}

func (c *caller) answer(ctx context.Context, cmd command) answer {
	a := answer{ID: cmd.ID}
	var err error
	switch cmd.Op {
	case "do", "dotx", "statement", "batch":
		a.Results = c.call(ctx, cmd)
	case "break":
		a.Results = []result{c.endTx(ctx, &cmd, cmd.Keys[0])}
	case "migrate":
		err = migrate(ctx, c.d.Pool(), cmd.Version)
	case "reset":
		a.Freed, err = c.reset(ctx, cmd.Keys[0])
	case "lookup":
		var status dedup.Status
		status, err = c.d.Lookup(ctx, scope, tool, cmd.Keys[0])
		a.Texts = []string{fmt.Sprint(status.State), string(status.Result)} // which older versions have as a number with a String method
	case "sweep":
		a.Swept, err = c.sweep(ctx, cmd.Gate)
	case "keys":
		a.Texts, err = keys(cmd.Args)
	case "fingerprints":
		a.Texts, err = fingerprints()
	case "amount":
		a.Results = []result{c.amount(ctx, cmd.Keys[0])}
	default:
		err = fmt.Errorf("no operation %q", cmd.Op)
	}
	if err != nil {
		a.Err = errorText(err)
	}
	return a
}
