package dedup

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// fakeServer speaks just enough of the protocol, in simple_protocol mode, for a
// call whose identity is free. What it answers to the record and COMMIT is the
// test's.
type fakeServer struct {
	listener net.Listener
	work     sync.WaitGroup
	commit   func(*pgproto3.Backend) (goOn bool)
}

func newFakeServer(t *testing.T, commit func(*pgproto3.Backend) bool) *fakeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &fakeServer{listener: listener, commit: commit}
	s.work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.work.Go(func() {
				defer func() { _ = conn.Close() }()
				s.serve(pgproto3.NewBackend(conn, conn))
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.work.Wait()
	})
	return s
}

func (s *fakeServer) serve(b *pgproto3.Backend) {
	startup, err := b.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if _, ok := startup.(*pgproto3.StartupMessage); !ok {
		return // a cancel request
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}})
	status := byte('I')
	for {
		if status != 0 { // else the test has sent it
			b.Send(&pgproto3.ReadyForQuery{TxStatus: status})
		}
		if b.Flush() != nil {
			return
		}
		message, err := b.Receive()
		if err != nil {
			return
		}
		query, ok := message.(*pgproto3.Query)
		if !ok {
			return
		}
		switch sql := strings.ToLower(query.String); {
		case strings.Contains(sql, "pg_index"):
			row(b, "f", "f", "f", "f", "f", "t", fakeNow)
			status = 'I'
		case strings.Contains(sql, "insert into"):
			if !s.commit(b) {
				_ = b.Flush()
				return
			}
			status = 0
		case strings.HasPrefix(sql, "begin"):
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("BEGIN")})
			row(b, "t", fakeNow, "", "1")
			row(b)
			status = 'T'
		case strings.HasPrefix(sql, "rollback"):
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("ROLLBACK")})
			status = 'I'
		default: // a look
			row(b, "t", fakeNow)
			row(b)
			status = 'I'
		}
	}
}

const fakeNow = "2026-01-02 03:04:05+00"

// row sends a result of one row, or of none.
func row(b *pgproto3.Backend, values ...string) {
	fields := make([]pgproto3.FieldDescription, len(values))
	data := make([][]byte, len(values))
	for i, v := range values {
		oid := uint32(25)
		switch v {
		case "t", "f":
			oid = 16
		case fakeNow:
			oid = 1184
		case "1":
			oid = 20
		}
		fields[i] = pgproto3.FieldDescription{Name: []byte("c"), DataTypeOID: oid, DataTypeSize: -1, TypeModifier: -1}
		data[i] = []byte(v)
	}
	b.Send(&pgproto3.RowDescription{Fields: fields})
	if len(values) > 0 {
		b.Send(&pgproto3.DataRow{Values: data})
	}
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
}

// TestClassifyCommit: what a server, or whoever stands in between, answers to
// the record and COMMIT, and what may be concluded.
func TestClassifyCommit(t *testing.T) {
	t.Parallel()

	recorded := func(b *pgproto3.Backend) { row(b, fakeNow) }
	tag := func(text string) *pgproto3.CommandComplete {
		return &pgproto3.CommandComplete{CommandTag: []byte(text)}
	}
	fault := func(severity, code string) *pgproto3.ErrorResponse {
		return &pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: "no"}
	}
	ready := func(status byte) *pgproto3.ReadyForQuery { return &pgproto3.ReadyForQuery{TxStatus: status} }

	for _, c := range []struct {
		name   string
		record bool // the record's row is answered first
		answer []pgproto3.BackendMessage
		state  state
		err    error // of Do, nil: any definite one
	}{
		{"Committed", true, []pgproto3.BackendMessage{tag("COMMIT"), ready('I')}, committed, nil},
		{"Closed", false, nil, unknown, ErrOutcomeUnknown},
		{"RecordThenClosed", true, nil, unknown, ErrOutcomeUnknown},
		{"CommitThenClosed", true, []pgproto3.BackendMessage{tag("COMMIT")}, unknown, ErrOutcomeUnknown},
		{"FatalAtRecord", false, []pgproto3.BackendMessage{fault("FATAL", "57P01")}, unknown, ErrOutcomeUnknown},
		{"FatalAtCommit", true, []pgproto3.BackendMessage{fault("FATAL", "08P01")}, unknown, ErrOutcomeUnknown},
		{"FatalAfterCommit", true, []pgproto3.BackendMessage{tag("COMMIT"), fault("FATAL", "08P01")}, unknown, ErrOutcomeUnknown},
		{"PanicAtCommit", true, []pgproto3.BackendMessage{fault("PANIC", "XX000")}, unknown, ErrOutcomeUnknown},
		{"StrangeTag", true, []pgproto3.BackendMessage{tag("DONE"), ready('I')}, unknown, ErrOutcomeUnknown},
		{"TagRollback", true, []pgproto3.BackendMessage{tag("ROLLBACK"), ready('I')}, undecided, nil},
		{"ErrorAtCommit", true, []pgproto3.BackendMessage{fault("ERROR", "23514"), ready('I')}, undecided, nil},
		{"ErrorAtRecord", false, []pgproto3.BackendMessage{fault("ERROR", "23514"), ready('E')}, undecided, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			server := newFakeServer(t, func(b *pgproto3.Backend) bool {
				if c.record {
					recorded(b)
				}
				for _, m := range c.answer {
					b.Send(m)
				}
				if len(c.answer) == 0 {
					return false
				}
				end, ok := c.answer[len(c.answer)-1].(*pgproto3.ReadyForQuery)
				return ok && end != nil
			})
			config, err := pgxpool.ParseConfig("postgres://u@" + server.listener.Addr().String() + "/d?sslmode=disable")
			require.NoError(t, err)
			config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
			pool, err := pgxpool.NewWithConfig(ctx, config)
			require.NoError(t, err)
			t.Cleanup(pool.Close)
			d, err := New(pool, &Options{Retry: RetryPolicy{MaxAttempts: 1}})
			require.NoError(t, err)
			call := Call{Scope: "s", Tool: "t", Key: "k"}
			effect := func(context.Context, pgx.Tx) (int, error) { return 1, nil }

			made, err := d.admit(ctx, call, false)
			require.NoError(t, err)
			made.call.effect = func(context.Context, pgx.Tx) (string, error) { return "1", nil }
			g := made.alone()
			got := g.attempt(ctx, g.calls)
			require.Equal(t, c.state, got.state, "%v", got.err)

			result, err := Do(ctx, d, call, effect)
			switch {
			case c.state == committed:
				require.NoError(t, err)
				require.Equal(t, 1, result.Value)
			case c.err != nil:
				require.ErrorIs(t, err, c.err)
			default:
				require.Error(t, err)
				for _, other := range []error{ErrOutcomeUnknown, ErrKeyReused, ErrBroken, ErrExpired} {
					require.NotErrorIs(t, err, other)
				}
			}
		})
	}
}
