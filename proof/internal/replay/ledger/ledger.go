// Package ledger is the application of a replay. Its tools are the recorded tools: each answers
// with the recorded text of its call, and a write adds a row to the ledger in the same transaction.
// No column of the ledger is unique, so a doubled call has two rows.
package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/tool"
)

// These texts begin the first statement of each tool and the last statement of each write, and no
// other statement. Faults aim at them.
const (
	Begins = "SELECT refused, answer FROM replay_calls"
	Ends   = "INSERT INTO replay_ledger"
)

const schema = `
	CREATE TABLE replay_calls (
		ref     text PRIMARY KEY,
		session text NOT NULL,
		refused boolean NOT NULL,
		answer  text NOT NULL
	);
	CREATE TABLE replay_ledger (
		entry   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		session text NOT NULL,
		ref     text NOT NULL
	);
	CREATE INDEX ON replay_ledger (session)`

// Ref names a call in the ledger.
func Ref(call *recording.Call) string {
	return fmt.Sprintf("%s/%d/%s", call.Session, call.Turn, call.ToolCallID)
}

// Create makes the tables, with the answers of all recorded calls. It fails if the tables exist.
func Create(ctx context.Context, pool *pgxpool.Pool, rec *recording.Recording) error {
	var answers [][]any
	for _, session := range rec.Sessions {
		for i := range session.Calls {
			if call := &session.Calls[i]; !call.InjectedByHarness {
				answers = append(answers, []any{Ref(call), call.Session, call.IsError, call.Result})
			}
		}
	}
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, schema); err != nil {
			return err
		}
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"replay_calls"}, []string{"ref", "session", "refused", "answer"}, pgx.CopyFromRows(answers))
		return err
	})
	if err != nil {
		return fmt.Errorf("creating the ledger: %w", err)
	}
	return nil
}

// Entries returns the entries of a session by the ref of their call, in their order.
func Entries(ctx context.Context, pool *pgxpool.Pool, session string) (map[string][]int64, error) {
	rows, err := pool.Query(ctx, `
		SELECT ref, entry
		FROM replay_ledger
		WHERE session = $1
		ORDER BY entry`, session)
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	entries := map[string][]int64{}
	var ref string
	var entry int64
	_, err = pgx.ForEachRow(rows, []any{&ref, &entry}, func() error {
		entries[ref] = append(entries[ref], entry)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	return entries, nil
}

// Refusal is an answer that the recording marks as an error: the tool changed nothing.
type Refusal struct {
	Text string `json:"text"`
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// look returns the recorded answer of the call that [WithRef] put into ctx, or its refusal as a
// [dedup.Final].
func look(ctx context.Context, tx pgx.Tx) (text string, err error) {
	var refused bool
	err = tx.QueryRow(ctx, Begins+` WHERE ref = $1`, refOf(ctx)).Scan(&refused, &text)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", fmt.Errorf("no recorded call %q", refOf(ctx))
	case err == nil && refused:
		return "", dedup.Final(&Refusal{text})
	}
	return text, err
}

// enter adds the call's row to the ledger and returns its number. A tool calls it last.
func enter(ctx context.Context, tx pgx.Tx) (entry int64, err error) {
	err = tx.QueryRow(ctx, Ends+` (session, ref) SELECT session, ref FROM replay_calls WHERE ref = $1 RETURNING entry`, refOf(ctx)).Scan(&entry)
	return entry, err
}

// In is the argument of every tool: the recorded arguments as they are.
type In struct {
	Arguments any `json:"arguments"`
}

// Out is the result of every tool: the recorded text and, for a write, its row in the ledger.
type Out struct {
	Text  string `json:"text"`
	Entry int64  `json:"entry,omitempty"`
}

// Tool is a tool of a recording.
type Tool struct {
	Name  string     `json:"name"`
	Class tool.Class `json:"class"`
}

// Run runs the tool on the caller's transaction, for the call that [WithRef] put into ctx.
func (t Tool) Run(ctx context.Context, tx pgx.Tx) (out Out, err error) {
	if out.Text, err = look(ctx, tx); err == nil && t.Class.Writes() {
		out.Entry, err = enter(ctx, tx)
	}
	return out, err
}

// Definition returns the tool for a registry.
func (t Tool) Definition() tool.Definition {
	run := func(ctx context.Context, tx pgx.Tx, _ In) (Out, error) { return t.Run(ctx, tx) }
	return tool.Tool[In, Out]{Name: t.Name, Class: t.Class, Run: run}
}

type refKey struct{}

// WithRef puts a call's name into the context of its tools.
func WithRef(ctx context.Context, ref string) context.Context {
	return context.WithValue(ctx, refKey{}, ref)
}

func refOf(ctx context.Context) string {
	ref, _ := ctx.Value(refKey{}).(string)
	return ref
}

// Tools returns the tools of a recording by domain. A tool writes if one of its calls does.
func Tools(rec *recording.Recording) map[string][]Tool {
	at := map[[2]string]int{}
	tools := map[string][]Tool{}
	for _, session := range rec.Sessions {
		for _, call := range session.Calls {
			key := [2]string{call.Domain, call.Tool}
			i, known := at[key]
			if !known {
				i = len(tools[call.Domain])
				at[key] = i
				tools[call.Domain] = append(tools[call.Domain], Tool{call.Tool, tool.ReadOnly})
			}
			if call.Class == recording.Write {
				tools[call.Domain][i].Class = tool.Write
			}
		}
	}
	return tools
}
