package droppederror

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/tooldedup/dedup"
)

var errNoSeat = errors.New("no seat")

type fullError struct{ hall string }

func (e *fullError) Error() string { return e.hall }

func findSeat(ctx context.Context, tx pgx.Tx) (n int, err error) {
	err = tx.QueryRow(ctx, "SELECT 1").Scan(&n)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, errNoSeat
	}
	return n, err
}

// What the program found itself is an answer; no statement has failed.
func answers(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		n, err := findSeat(ctx, tx)
		var full *fullError
		if errors.Is(err, errNoSeat) || err == errNoSeat {
			return 0, nil
		}
		if errors.Is(err, errNoSeat) {
			return 0, nil
		}
		if err != nil && errors.As(err, &full) {
			return 0, nil
		}
		if err != nil {
			if err == errNoSeat {
				return 0, nil
			}
			return 0, err
		}
		return n, nil
	})
}

// What pgx says is the failure of a statement.
func failures(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		n, err := findSeat(ctx, tx)
		var connect *pgconn.ConnectError
		var state interface{ SQLState() string }
		switch {
		case errors.Is(err, errNoSeat):
			return 0, nil
		case errors.Is(err, pgx.ErrTxClosed):
			return 0, nil // want `the error of findSeat becomes a success`
		case errors.Is(err, context.Canceled):
			return 0, nil // want `the error of findSeat becomes a success`
		case errors.As(err, &connect):
			return 0, nil // want `the error of findSeat becomes a success`
		case errors.As(err, &state):
			return 0, nil // want `the error of findSeat becomes a success`
		case err != nil && !errors.Is(err, errNoSeat):
			return 0, nil // want `the error of findSeat becomes a success`
		}
		return n, nil
	})
}
