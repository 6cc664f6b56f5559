package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// A tool without a record that ends its own transaction gets an error, not a result.
func TestToolsWithoutARecordDoNotEndTheirTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	for name, end := range map[string]func(ctx context.Context, tx pgx.Tx) error{
		"Text": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `COMMIT; INSERT INTO tickets (title) VALUES ('x')`)
			return err
		},
		"Conn": func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, `COMMIT`)
			return err
		},
		"Commit":   func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
		"Rollback": func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) },
	} {
		for _, class := range []tool.Class{tool.ReadOnly, tool.Idempotent} {
			named := name + "-" + string(class)
			require.NoError(t, b.tools.Add(tool.Tool[struct{}, int]{
				Name: named, Class: class,
				Run: func(ctx context.Context, tx pgx.Tx, _ struct{}) (int, error) { return 1, end(ctx, tx) },
			}))
			err := b.fails(t, call(named, "", ""))
			require.ErrorIs(t, err, dedup.ErrInvalid, named)
			require.False(t, dedup.IsRetryable(err), named)
		}
	}
}

// The misuse of a tool without a record is told to the program, whatever the tool returns with it.
func TestToolsWithoutARecordDoNotHideMisuse(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	for name, own := range map[string]error{
		"final":    dedup.Final(errors.New("declined")),
		"argument": &tool.ArgumentError{Tool: "argument", Field: "title", Reason: "names no ticket"},
	} {
		for how, end := range map[string]func(ctx context.Context, tx pgx.Tx) error{
			"commit": func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) },
			"conn": func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Conn().Exec(ctx, `ROLLBACK`)
				return err
			},
		} {
			named := name + "-" + how
			b.add(t, named, tool.Idempotent, func(d *tool.Tool[ticketIn, ticket]) {
				d.Run = func(ctx context.Context, tx pgx.Tx, in ticketIn) (ticket, error) {
					if _, err := tx.Exec(ctx, `INSERT INTO tickets (title) VALUES ($1)`, in.Title); err != nil {
						return ticket{}, err
					}
					return ticket{}, errors.Join(end(ctx, tx), own)
				}
			})
			err := b.fails(t, tool.Invocation{Scope: "acme", Tool: named, Args: json.RawMessage(`{"title":"a"}`)})
			var invalid *dedup.InvalidError
			require.ErrorAs(t, err, &invalid, named)
			require.Equal(t, "effect", invalid.What, named)
			_, _, rest := tool.Reply(tool.Answer{}, err)
			require.Error(t, rest, named)
		}
	}
	require.Zero(t, b.count(t, "tickets"))
}

// A tool that calls another tool must not wait for its own connection.
func TestInvokeInsideATool(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	config := b.pool.Config()
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, inner := range []tool.Class{tool.ReadOnly, tool.Idempotent, tool.Write} {
		for _, outer := range []tool.Class{tool.ReadOnly, tool.Idempotent, tool.Write} {
			tools := tool.NewRegistry(d, nil)
			invoke := func(ctx context.Context, name string, class tool.Class) error {
				inv := call(name, "", `{"title":"a"}`)
				if class == tool.Write {
					inv.Key = name
				}
				_, err := tools.Invoke(ctx, inv)
				return err
			}
			require.NoError(t, tools.Add(
				tool.Tool[ticketIn, ticket]{Name: "inner", Class: inner, Run: func(context.Context, pgx.Tx, ticketIn) (ticket, error) {
					return ticket{}, nil
				}},
				tool.Tool[ticketIn, ticket]{Name: "outer", Class: outer, Run: func(ctx context.Context, _ pgx.Tx, _ ticketIn) (ticket, error) {
					return ticket{}, invoke(ctx, "inner", inner)
				}},
			))
			require.ErrorIs(t, invoke(ctx, "outer", outer), dedup.ErrInvalid, "%s in %s", inner, outer)
		}
	}
}

// readsNull, like common types for decimals, keeps its value if it reads null.
type readsNull struct{ text string }

func (r *readsNull) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, &r.text)
}

func (r readsNull) MarshalText() ([]byte, error) {
	if r.text == "" {
		return []byte("0"), nil
	}
	return []byte(r.text), nil
}

// A field of the key is required in every call, and null does not count.
func TestKeyIsNotNull(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		Ref readsNull `json:"ref" dedup:"key"`
	}
	require.NoError(t, b.tools.Add(of[in]()))
	var bad *tool.ArgumentError
	require.ErrorAs(t, b.fails(t, call("t", "", `{"ref":null}`)), &bad)
	require.Equal(t, "ref", bad.Field)
	require.Equal(t, "is null", bad.Reason)
	b.invoke(t, call("t", "", `{"ref":"1"}`))
}

// secretive reads its own JSON, so that its tags are ignored.
type secretive struct {
	Number string `dedup:"redact"`
}

func (s *secretive) UnmarshalText(text []byte) error { s.Number = string(text); return nil }

// A tag without effect would leave a secret in fingerprints and errors.
func TestTagsThatNobodyReads(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	var registration *tool.RegistrationError
	require.ErrorAs(t, b.tools.Add(of[struct{ Card secretive }]()), &registration)
	require.Equal(t, "In.Card.Number", registration.Problems[0].Field)
}

type (
	twig struct{ Sticks }
	// Sticks is embedded by a type that it contains.
	Sticks struct {
		Kids []twig `json:"kids,omitempty"`
	}
)

// A type may hold lists of a type that embeds it.
func TestEmbeddedTypeHoldsItsOwner(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	require.NoError(t, b.tools.Add(of[twig]()))
	b.invoke(t, call("t", "k", `{"kids":[{"kids":[{}]}]}`))
}

// Of two members with one name encoding/json would keep the last.
func TestMapKeysGivenTwice(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	require.NoError(t, b.tools.Add(of[struct {
		By map[string]string `json:"by,omitempty"`
	}]()))
	require.ErrorContains(t, b.fails(t, call("t", "k", `{"by":{"1":"a","\u0031":"b"}}`)), "is given twice")
}
