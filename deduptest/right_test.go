package deduptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/tool"
)

type ticket struct {
	ID    int    `json:"id"`
	Title string `json:"title"`
}

// callOf returns the call for a try, with all its arguments.
func callOf(try deduptest.Try) dedup.Call {
	return dedup.Call{Scope: "acme", Tool: "open_ticket", Key: try.Key, Args: map[string]string{"title": titleOf(try)}}
}

func titleOf(try deduptest.Try) string { return fmt.Sprint("printer ", try.Variant, " on fire") }

func insertTicket(ctx context.Context, tx pgx.Tx, try deduptest.Try) (ticket, error) {
	opened := ticket{Title: titleOf(try)}
	err := tx.QueryRow(ctx, `INSERT INTO tickets (key, title) VALUES ($1, $2) RETURNING id`, try.Key, opened.Title).Scan(&opened.ID)
	return opened, err
}

func do(ctx context.Context, try deduptest.Try) (any, error) {
	result, err := dedup.Do(ctx, try.Deduper, callOf(try), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
		return insertTicket(ctx, tx, try)
	})
	return result.Value, err
}

// doAgain repeats the call with the same key.
func doAgain(ctx context.Context, try deduptest.Try) (any, error) {
	answer, err := do(ctx, try)
	for i := 0; i < 3 && dedup.IsRetryable(err) && ctx.Err() == nil; i++ {
		answer, err = do(ctx, try)
	}
	return answer, err
}

func doTx(ctx context.Context, try deduptest.Try) (any, error) {
	var result dedup.Result[ticket]
	for {
		err := pgx.BeginFunc(ctx, try.Pool, func(tx pgx.Tx) (err error) {
			result, err = dedup.DoTx(ctx, try.Deduper, tx, callOf(try), func(ctx context.Context, tx pgx.Tx) (ticket, error) {
				return insertTicket(ctx, tx, try)
			})
			return err
		})
		if !errors.Is(err, dedup.ErrRestartTx) || ctx.Err() != nil {
			return result.Value, err
		}
	}
}

func doStatement(ctx context.Context, try deduptest.Try) (any, error) {
	result, err := dedup.DoStatement[ticket](ctx, try.Deduper, callOf(try),
		dedup.SQL(`INSERT INTO tickets (key, title) VALUES ($1, $2) RETURNING id, title`, try.Key, titleOf(try)))
	return result.Value, err
}

// doSteps has an effect of four statements: rows that are read to the end, an INSERT, a COPY and a
// batch.
func doSteps(ctx context.Context, try deduptest.Try) (any, error) {
	result, err := dedup.Do(ctx, try.Deduper, callOf(try), func(ctx context.Context, tx pgx.Tx) ([]ticket, error) {
		rows, err := tx.Query(ctx, `SELECT id, title FROM tickets WHERE key = $1`, try.Key)
		if err != nil {
			return nil, err
		}
		before, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ticket])
		if err != nil {
			return nil, err
		}
		opened, err := insertTicket(ctx, tx, try)
		if err != nil {
			return nil, err
		}
		lines := pgx.CopyFromRows([][]any{{opened.ID, "first"}, {opened.ID, "second"}})
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"lines"}, []string{"ticket", "line"}, lines); err != nil {
			return nil, err
		}
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE tickets SET title = title || '!' WHERE id = $1`, opened.ID)
		batch.Queue(`UPDATE tickets SET title = title || '?' WHERE id = $1`, opened.ID)
		results := tx.SendBatch(ctx, batch)
		_, err = results.Exec()
		return append(before, opened), errors.Join(err, results.Close())
	})
	return result.Value, err
}

// keyLocks lets one call of a key run at a time in this process.
var keyLocks sync.Map

func doLocked(ctx context.Context, try deduptest.Try) (any, error) {
	lock, _ := keyLocks.LoadOrStore(try.Key, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	defer lock.(*sync.Mutex).Unlock()
	return do(ctx, try)
}

// fromRegistry calls a tool of a registry. The key is an argument, and the tool needs a row.
func fromRegistry(ctx context.Context, try deduptest.Try) (any, error) {
	if _, err := try.Pool.Exec(ctx, `INSERT INTO seen (key) VALUES ($1) ON CONFLICT DO NOTHING`, try.Key); err != nil {
		return nil, err
	}
	type in struct {
		Seen  string `json:"seen" dedup:"key"`
		Title string `json:"title"`
	}
	tools := tool.NewRegistry(try.Deduper, nil)
	err := tools.Add(tool.Tool[in, ticket]{
		Name: "open_ticket", Class: tool.Write,
		Run: func(ctx context.Context, tx pgx.Tx, in in) (opened ticket, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO tickets (key, title) SELECT key, $2 FROM seen WHERE key = $1 RETURNING id, title`, in.Seen, in.Title).Scan(&opened.ID, &opened.Title)
			return opened, err
		},
	})
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(in{try.Key, titleOf(try)})
	if err != nil {
		return nil, err
	}
	answer, err := tools.Invoke(ctx, tool.Invocation{Scope: "acme", Tool: "open_ticket", Args: args})
	return answer.JSON, err
}

func rightTools() []deduptest.Tool {
	named := func(name string, call func(context.Context, deduptest.Try) (any, error)) deduptest.Tool {
		return deduptest.Tool{Name: name, Call: call, Count: countTickets}
	}
	impatient := named("in_flight_at_once", do)
	impatient.Options = &dedup.Options{MaxWait: -1}
	simple := named("simple_protocol", do)
	simple.Configure = func(config *pgxpool.Config) {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	}
	notKept := named("not_kept", do)
	notKept.Options = &dedup.Options{Retention: dedup.Retention{Result: -1}}
	return []deduptest.Tool{
		named("do", do), named("do_tx", doTx), named("do_statement", doStatement), named("do_steps", doSteps),
		named("do_again", doAgain), named("lock_per_key", doLocked), named("from_registry", fromRegistry), impatient, simple, notKept,
	}
}

// usual are right tools that end their transactions in different ways, and one that keeps no
// answers.
var usual = []string{"do", "do_tx", "do_statement", "not_kept"}

func TestRightToolsPass(t *testing.T) {
	t.Parallel()
	testRightTools(t, true)
}

func TestLongRightToolsPass(t *testing.T) {
	t.Parallel()
	testRightTools(t, false)
}

func testRightTools(t *testing.T, areUsual bool) {
	t.Helper()
	for _, tool := range rightTools() {
		if slices.Contains(usual, tool.Name) != areUsual {
			continue
		}
		var without []deduptest.Scenario
		if tool.Name == "do_statement" { // its effect has no Go code
			without = append(without, deduptest.Panicked)
		}
		if tool.Name != "do" { // a process takes long
			without = append(without, deduptest.ProcessKilled)
		}
		testRightTool(t, tool, without)
	}
}

// TestLongRightToolsAreKilled kills the process of the other usual tools.
func TestLongRightToolsAreKilled(t *testing.T) {
	t.Parallel()
	for _, tool := range rightTools() {
		if slices.Contains(usual, tool.Name) && tool.Name != "do" {
			testRightTool(t, tool, allBut(deduptest.ProcessKilled))
		}
	}
}

func testRightTool(t *testing.T, tool deduptest.Tool, without []deduptest.Scenario) {
	t.Helper()
	t.Run(tool.Name, func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		report := deduptest.Verify(t, b.url, tool, &deduptest.Options{Without: without})
		require.Empty(t, report.Failed())
		for _, o := range report.Scenarios {
			require.Equal(t, slices.Contains(without, o.Scenario), o.Off)
			if o.Off {
				continue
			}
			require.Positive(t, o.Cases, o.Scenario)
			require.Positive(t, o.Faults, o.Scenario)
			require.Greater(t, o.Calls, o.Cases, o.Scenario)
		}
	})
}
