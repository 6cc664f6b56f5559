package wire

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
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

	conn, err := pgtest.NewEmpty(t).Pool(t).Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	for _, tc := range []struct {
		sql string
		arg any
	}{{`SELECT $1::int`, secret}, {`SELECT $1::text::int`, secret}, {`SELECT $1::uuid`, secret}, {`SELECT $1::int[]`, []string{secret}}} {
		_, err := conn.Exec(t.Context(), tc.sql, tc.arg)
		require.ErrorContains(t, err, secret)
		require.NotContains(t, LogText(fmt.Errorf("booking: %w", err)), secret)
	}
}

// silent wraps without a text.
type silent struct{ err error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.err }
