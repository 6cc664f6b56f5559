package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

func TestLogText(t *testing.T) {
	t.Parallel()
	require.Empty(t, LogText(nil))
	require.Equal(t, "no seat", LogText(errors.New("no seat")))

	const secret = "4111-SECRET"
	raised := &pgconn.PgError{Severity: "ERROR", Code: "23505", Message: "duplicate " + secret, Detail: "Key (card)=(" + secret + ")", ConstraintName: "cards_pkey", Routine: "_bt_check_unique"}
	short := `SQLSTATE 23505 in _bt_check_unique, constraint "cards_pkey"`
	for want, err := range map[string]error{
		short:                                 raised,
		"booking: " + short:                   fmt.Errorf("booking: %w", raised),
		"booking: " + short + ", really":      fmt.Errorf("booking: %s, really%w", raised.Message, silent{raised}),
		short + "\nSQLSTATE 22P02":            errors.Join(raised, &pgconn.PgError{Code: "22P02", Message: "invalid " + secret}),
		"a (" + short + " and no seat)":       fmt.Errorf("a (%w and %w)", raised, errors.New("no seat")),
		"no message (SQLSTATE 57P01) in text": errors.New("no message (SQLSTATE 57P01) in text"),
	} {
		require.Equal(t, want, LogText(err))
	}

	pool := pgtest.NewEmpty(t).Pool(t)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, tc := range []struct {
		sql string
		arg any
	}{{`SELECT $1::int`, secret}, {`SELECT $1::text::int`, secret}, {`SELECT $1::uuid`, secret}, {`SELECT $1::int[]`, []string{secret}}} {
		_, err := conn.Exec(t.Context(), tc.sql, tc.arg)
		require.ErrorContains(t, err, secret)
		require.NotContains(t, LogText(fmt.Errorf("booking: %w", err)), secret)
		require.True(t, IsOfDatabase(fmt.Errorf("booking: %w", err)))
	}

	var parses flag
	scan := conn.QueryRow(t.Context(), `SELECT $1::text AS card`, secret).Scan(&parses)
	db := stdlib.OpenDBFromPool(pool)
	defer func() { require.NoError(t, db.Close()) }()
	var number int
	sqlScan := db.QueryRowContext(t.Context(), `SELECT $1::text AS card`, secret).Scan(&number)
	for _, err := range []error{scan, sqlScan, errors.Unwrap(sqlScan)} {
		require.ErrorContains(t, err, secret)
		for _, err := range []error{err, fmt.Errorf("booking: %w", err), errors.New("booking: " + err.Error())} {
			require.NotContains(t, LogText(err), secret)
			require.True(t, IsOfDatabase(err))
		}
	}
}

// flag is a column whose error quotes it.
type flag bool

func (f *flag) Scan(v any) (err error) {
	parsed, err := strconv.ParseBool(fmt.Sprint(v))
	*f = flag(parsed)
	return err
}

func TestIsOfDatabase(t *testing.T) {
	t.Parallel()
	server := &pgconn.PgError{Severity: "ERROR", Code: "22P02", Message: "invalid " + strings.Repeat("4111 ", 400)}
	for name, row := range map[string]struct {
		err  error
		want bool
	}{
		"Own":             {errors.New("no seat"), false},
		"Server":          {server, true},
		"Wrapped":         {fmt.Errorf("booking: %w", server), true},
		"TextOnly":        {errors.New(server.Error()), true},
		"Cut":             {withText{server.Error()[:1024], server}, true},
		"OwnText":         {withText{"the seat is taken", server}, false},
		"OtherDriver":     {fmt.Errorf("booking: %w", otherDriver{}), true},
		"NoRows":          {fmt.Errorf("booking: %w", pgx.ErrNoRows), false},
		"SQLWithoutValue": {errors.New("the sql: scan it"), false},
	} {
		require.Equal(t, row.want, IsOfDatabase(row.err), name)
	}
}

type withText struct {
	text string
	err  error
}

func (e withText) Error() string { return e.text }
func (e withText) Unwrap() error { return e.err }

type otherDriver struct{}

func (otherDriver) Error() string    { return "pq: invalid 4111" }
func (otherDriver) SQLState() string { return "22P02" }

// silent wraps without a text.
type silent struct{ err error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.err }
