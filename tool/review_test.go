package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/tool"
)

// A tool that has no record and ends its own transaction is told so, and is not
// answered as if all were well.
func TestToolsWithoutARecordDoNotEndTheirTransaction(t *testing.T) {
	t.Parallel()
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
			t.Run(name+"/"+class.String(), func(t *testing.T) {
				t.Parallel()
				b := setup(t, nil, nil)
				require.NoError(t, b.tools.Add(tool.Tool[struct{}, int]{
					Name: "t", Class: class,
					Run: func(ctx context.Context, tx pgx.Tx, _ struct{}) (int, error) { return 1, end(ctx, tx) },
				}))
				err := b.fails(t, call("t", "", ""))
				require.ErrorIs(t, err, dedup.ErrInvalid)
				require.False(t, dedup.IsRetryable(err))
			})
		}
	}
}

// A tool that calls another must not wait for a connection that it holds.
func TestInvokeInsideATool(t *testing.T) {
	t.Parallel()
	for _, inner := range []tool.Class{tool.ReadOnly, tool.Idempotent, tool.Write} {
		for _, outer := range []tool.Class{tool.ReadOnly, tool.Idempotent, tool.Write} {
			t.Run(inner.String()+" in "+outer.String(), func(t *testing.T) {
				t.Parallel()
				b := setup(t, nil, nil)
				config := b.pool.Config()
				config.MaxConns = 1
				pool, err := pgxpool.NewWithConfig(t.Context(), config)
				require.NoError(t, err)
				t.Cleanup(pool.Close)
				d, err := dedup.New(pool, nil)
				require.NoError(t, err)
				tools := tool.NewRegistry(d, nil)
				run := func(ctx context.Context, tx pgx.Tx, in ticketIn) (ticket, error) { return ticket{}, nil }
				require.NoError(t, tools.Add(
					tool.Tool[ticketIn, ticket]{Name: "inner", Class: inner, Run: run},
					tool.Tool[ticketIn, ticket]{Name: "outer", Class: outer, Run: func(ctx context.Context, tx pgx.Tx, in ticketIn) (ticket, error) {
						inv := call("inner", "", `{"title":"a"}`)
						if inner == tool.Write {
							inv.Key = "inner"
						}
						_, err := tools.Invoke(ctx, inv)
						return ticket{}, err
					}},
				))
				inv := call("outer", "", `{"title":"a"}`)
				if outer == tool.Write {
					inv.Key = "outer"
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, err = tools.Invoke(ctx, inv)
				require.ErrorIs(t, err, dedup.ErrInvalid)
			})
		}
	}
}

// Calls that have nothing in common do not fail because of each other's cleaning.
func TestStrangersDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			b, _ := guarded(t, &dedup.Options{Isolation: level, Retry: dedup.RetryPolicy{MaxAttempts: 100}}, tool.LookalikeGuard{Action: tool.Report})
			b.exec(t, `INSERT INTO tool_lookalike (likeness, key, at, until)
				SELECT sha256(n::text::bytea), n::text, now() - interval '2 days', now() - interval '1 day' FROM generate_series(1, 5000) AS n`)
			var all sync.WaitGroup
			errs := make([]error, 8)
			for i := range errs {
				all.Go(func() {
					for n := range 25 {
						if _, err := b.tools.Invoke(t.Context(), call("w", fmt.Sprint("k", i, "-", n), fmt.Sprintf(`{"title":"%d-%d"}`, i, n))); err != nil {
							errs[i] = err
							return
						}
					}
				})
			}
			all.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
			var left int
			require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT count(*) FROM tool_lookalike WHERE until <= now()`).Scan(&left))
			require.Less(t, left, 4_800, "200 calls delete more than one row each")
		})
	}
}

// What encoding/json takes for null in a string is no number, and no string either.
func TestQuotedNullIsNoNumber(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	type in struct {
		N int    `json:"n,string" dedup:"key"`
		S string `json:"s,omitempty,string"`
		P *int   `json:"p,omitempty,string"`
	}
	require.NoError(t, b.tools.Add(of[in]()))
	var bad *tool.ArgumentError
	require.ErrorAs(t, b.fails(t, call("t", "", `{"n":"null"}`)), &bad)
	require.Equal(t, "n", bad.Field)
	require.Equal(t, "cannot be read as int", bad.Reason)
	require.ErrorAs(t, b.fails(t, call("t", "", `{"n":"\u006eull"}`)), &bad)
	require.ErrorAs(t, b.fails(t, call("t", "", `{"n":"1","s":"null"}`)), &bad)
	require.Equal(t, "s", bad.Field)
	b.invoke(t, call("t", "", `{"n":"1","p":null}`))
}

// readsNull is a type like those for decimals: null leaves it as it was.
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

// A field that is the key is there in every call, and null is not there.
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

// secretive reads its own JSON, so that its tags say nothing.
type secretive struct {
	Number string `dedup:"redact"`
}

func (s *secretive) UnmarshalText(text []byte) error { s.Number = string(text); return nil }

// A tag that nobody reads would leave a secret in fingerprints and errors.
func TestTagsThatNobodyReads(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	var registration *tool.RegistrationError
	require.ErrorAs(t, b.tools.Add(of[struct{ Card secretive }]()), &registration)
	require.Equal(t, "In.Card.Number", registration.Problems[0].Field)
}

type (
	twig struct{ Sticks }
	// Sticks is embedded by what it holds.
	Sticks struct {
		Kids []twig `json:"kids,omitempty"`
	}
)

// A type may hold lists of what embeds it.
func TestEmbeddedTypeHoldsItsOwner(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	require.NoError(t, b.tools.Add(of[twig]()))
	b.invoke(t, call("t", "k", `{"kids":[{"kids":[{}]}]}`))
}

// Two spellings of a map's key would be one member for the tool.
func TestMapKeysGivenTwice(t *testing.T) {
	t.Parallel()
	b := setup(t, nil, nil)
	require.NoError(t, b.tools.Add(of[struct {
		By map[int]string `json:"by,omitempty"`
	}]()))
	require.ErrorContains(t, b.fails(t, call("t", "k", `{"by":{"1":"a","1":"b"}}`)), "is given twice")
	require.ErrorContains(t, b.fails(t, call("t", "k", `{"by":{"1":"a","01":"b"}}`)), "cannot be read as int")
	require.ErrorContains(t, b.tools.Add(of[struct{ By map[netip.Addr]string }]()), "the keys of a map must be strings or integers")
}

// The answer of a call that has run is not lost with its mark: it can be asked
// for again.
func TestRecallThatFailsMayBeRepeated(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, nil, tool.LookalikeGuard{Action: tool.Report})
	b.invoke(t, call("w", "k1", `{"title":"a"}`))
	// The connection of the replay is cut as it goes back to the pool.
	config := b.pool.Config()
	config.MaxConns = 1
	var released atomic.Int64
	config.AfterRelease = func(conn *pgx.Conn) bool {
		if released.Add(1) == 1 {
			_ = conn.PgConn().Conn().Close()
		}
		return true
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	d, err := dedup.New(pool, nil)
	require.NoError(t, err)
	tools := tool.NewRegistry(d, nil)
	require.NoError(t, tools.Add(tool.Tool[ticketIn, ticket]{
		Name: "w", Class: tool.Write, Run: b.createTicket, Lookalikes: tool.LookalikeGuard{Action: tool.Report},
	}))
	_, err = tools.Invoke(t.Context(), call("w", "k1", `{"title":"a"}`))
	require.Error(t, err)
	require.True(t, dedup.IsRetryable(err), "%v", err)
	again, err := tools.Invoke(t.Context(), call("w", "k1", `{"title":"a"}`))
	require.NoError(t, err)
	require.True(t, again.Replayed)
}
