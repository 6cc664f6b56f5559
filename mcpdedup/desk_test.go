package mcpdedup_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/door"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/mcpdedup"
	"github.com/tooldedup/dedup/tool"
)

// The tests' servers offer the tools of a hotel's desk.
type (
	bookIn struct {
		Guest  string `json:"guest" jsonschema:"who is to stay"`
		Nights int8   `json:"nights,omitempty"`
		Note   string `json:"note,omitempty" dedup:"ignore"`
		Card   string `json:"card,omitempty" dedup:"redact"`
		Extra  any    `json:"extra,omitempty"`
	}
	booking struct {
		ID    int64  `json:"id"`
		Guest string `json:"guest"`
	}
	cancelIn struct {
		Ref string `json:"ref" dedup:"key"`
	}
	phoneIn struct {
		Guest string `json:"guest"`
		Phone string `json:"phone"`
	}
	chargeIn struct {
		Guest  string `json:"guest"`
		Amount int64  `json:"amount"`
	}
	findIn struct {
		Guest string `json:"guest,omitempty"`
	}
)

const deskTables = `
CREATE TABLE bookings (id bigint GENERATED ALWAYS AS IDENTITY (START WITH 9007199254740993), guest text NOT NULL, nights int, card text);
CREATE TABLE effects (id bigint GENERATED ALWAYS AS IDENTITY, what text NOT NULL);
CREATE TABLE server_only_canary (id int PRIMARY KEY)`

// deskTools returns the desk's tools. It calls pause, if that is not nil, before a booking is
// committed.
func deskTools(pool *pgxpool.Pool, pause func(guest string)) (*tool.Registry, error) {
	d, err := dedup.New(pool, nil)
	if err != nil {
		return nil, err
	}
	tools := tool.NewRegistry(d, nil)
	return tools, tools.Add(
		tool.Tool[bookIn, booking]{
			Name: "book", Description: "Book a room.", Class: tool.Write, MaxWait: -1,
			Run: func(ctx context.Context, tx pgx.Tx, in bookIn) (out booking, err error) {
				if in.Guest == "Nobody" {
					return out, dedup.Final(errors.New("there is no room for Nobody"))
				}
				err = tx.QueryRow(ctx, `INSERT INTO bookings (guest, nights, card) VALUES ($1, $2, $3) RETURNING id, guest`,
					in.Guest, in.Nights, in.Card).Scan(&out.ID, &out.Guest)
				if pause != nil {
					pause(in.Guest)
				}
				return out, err
			},
		},
		tool.Tool[cancelIn, []string]{
			Name: "cancel", Description: "Cancel a booking.", Class: tool.Destructive,
			Run: func(ctx context.Context, tx pgx.Tx, in cancelIn) ([]string, error) {
				return []string{in.Ref}, effect(ctx, tx, "cancel")
			},
		},
		tool.Tool[phoneIn, map[string]string]{
			Name: "set_phone", Description: "Set a guest's telephone number.", Class: tool.Idempotent,
			Run: func(ctx context.Context, tx pgx.Tx, in phoneIn) (map[string]string, error) {
				return map[string]string{"phone": in.Phone}, effect(ctx, tx, "phone")
			},
		},
		tool.Tool[chargeIn, booking]{
			Name: "charge", Description: "Charge a guest.", Class: tool.Destructive,
			Retention: dedup.Retention{Result: 30 * 24 * time.Hour},
			Run: func(ctx context.Context, tx pgx.Tx, in chargeIn) (booking, error) {
				return booking{ID: in.Amount, Guest: in.Guest}, effect(ctx, tx, "charge")
			},
		},
		tool.Tool[findIn, []booking]{
			Name: "find", Description: "Find bookings.", Class: tool.ReadOnly,
			Run: func(ctx context.Context, tx pgx.Tx, in findIn) ([]booking, error) {
				if in.Guest == "broken" {
					_, err := tx.Exec(ctx, `INSERT INTO server_only_canary VALUES (1)`)
					return nil, err
				}
				rows, _ := tx.Query(ctx, `SELECT id, guest FROM bookings WHERE $1 IN ('', guest) ORDER BY id`, in.Guest)
				return pgx.CollectRows(rows, pgx.RowToStructByPos[booking])
			},
		},
	)
}

func effect(ctx context.Context, tx pgx.Tx, what string) error {
	_, err := tx.Exec(ctx, `INSERT INTO effects (what) VALUES ($1)`, what)
	return err
}

// desk is a hotel of one test.
type desk struct {
	db    *pgtest.DB
	pool  *pgxpool.Pool
	tools *tool.Registry
}

func newDesk(t testing.TB, pause func(guest string)) *desk {
	t.Helper()
	db := pgtest.New(t)
	pool := db.Pool(t)
	_, err := pool.Exec(t.Context(), deskTables)
	require.NoError(t, err)
	tools, err := deskTools(pool, pause)
	require.NoError(t, err)
	return &desk{db: db, pool: pool, tools: tools}
}

// proxied returns the desk's tools on connections through a proxy.
func (d *desk) proxied(t testing.TB) (*tool.Registry, *faultproxy.Proxy) {
	t.Helper()
	proxy, err := faultproxy.New(d.db.URL)
	require.NoError(t, err)
	t.Cleanup(proxy.Close)
	pool, err := pgxpool.New(t.Context(), proxy.URL())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	tools, err := deskTools(pool, nil)
	require.NoError(t, err)
	return tools, proxy
}

// count returns the number of rows that calls left.
func (d *desk) count(t testing.TB, table string) (n int) {
	t.Helper()
	require.NoError(t, d.pool.QueryRow(t.Context(), `SELECT count(*) FROM `+pgx.Identifier{table}.Sanitize()).Scan(&n))
	return n
}

// server returns a server of the desk.
func (d *desk) server(t testing.TB, opts *mcpdedup.Options) *mcp.Server {
	t.Helper()
	server := newServer()
	require.NoError(t, mcpdedup.AddTools(server, d.tools, opts))
	return server
}

func newServer() *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
}

func oneUser() *mcpdedup.Options {
	return &mcpdedup.Options{Scope: mcpdedup.SingleUser("house")}
}

// Versions of MCP with a session and without.
const (
	withSession    = "2025-11-25"
	withoutSession = "2026-07-28"
)

// connect connects a client of the SDK in memory.
func connect(t testing.TB, server *mcp.Server, version ...string) *mcp.ClientSession {
	t.Helper()
	there, here := mcp.NewInMemoryTransports()
	ss, err := server.Connect(t.Context(), there, nil)
	require.NoError(t, err)
	cs := connectOver(t, here, version...)
	t.Cleanup(func() { cs.Close(); ss.Wait() })
	return cs
}

// connectOver connects with a version of MCP, and without a session if version is empty.
func connectOver(t testing.TB, transport mcp.Transport, version ...string) *mcp.ClientSession {
	t.Helper()
	opts := &mcp.ClientSessionOptions{ProtocolVersion: strings.Join(version, "")}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, nil).Connect(t.Context(), transport, opts)
	require.NoError(t, err)
	return cs
}

// args returns a call's arguments.
type args = map[string]any

func call(t testing.TB, cs *mcp.ClientSession, name string, arguments args) *mcp.CallToolResult {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	require.NoError(t, err)
	return res
}

func text(res *mcp.CallToolResult) string { return res.Content[0].(*mcp.TextContent).Text }

func code(res *mcp.CallToolResult) string {
	name, _ := res.Meta[door.MetaError].(string)
	return name
}

func requireSame(t testing.TB, first, again *mcp.CallToolResult) {
	t.Helper()
	require.False(t, first.IsError, text(first))
	require.False(t, again.IsError, text(again))
	require.Equal(t, false, first.Meta[door.MetaDuplicate])
	require.Equal(t, true, again.Meta[door.MetaDuplicate])
	require.Equal(t, first.Meta[door.MetaCreatedAt], again.Meta[door.MetaCreatedAt])
	_, err := time.Parse(time.RFC3339, again.Meta[door.MetaCreatedAt].(string))
	require.NoError(t, err)
	require.Equal(t, text(first), text(again))
	require.Equal(t, first.StructuredContent, again.StructuredContent)
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	require.NoError(t, err)
	return string(b)
}
