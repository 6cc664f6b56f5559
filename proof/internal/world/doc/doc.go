// Package doc reads and writes the application's documents: one json column,
// stored as text, so that no number and no key is rewritten by the database.
package doc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup/proof/internal/world/kit"
)

// Get decodes the one document that query selects. It returns pgx.ErrNoRows,
// unwrapped, where there is none.
func Get[T any](ctx context.Context, tx pgx.Tx, query string, args ...any) (T, error) {
	var value T
	var text []byte
	if err := tx.QueryRow(ctx, query, args...).Scan(&text); err != nil {
		return value, err
	}
	if err := json.Unmarshal(text, &value); err != nil {
		return value, fmt.Errorf("decoding document %v: %w", args, err)
	}
	return value, nil
}

// Find is Get that refuses with message where there is no document.
func Find[T any](ctx context.Context, tx pgx.Tx, message, query, id string) (T, error) {
	value, err := Get[T](ctx, tx, query, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return value, kit.Refuse("%s", message)
	}
	return value, err
}

// Put encodes value as the second argument of statement, after id, and
// reports whether a row was written.
func Put(ctx context.Context, tx pgx.Tx, statement, id string, value any) (bool, error) {
	text, err := kit.Marshal(value)
	if err != nil {
		return false, fmt.Errorf("encoding document %s: %w", id, err)
	}
	tag, err := tx.Exec(ctx, statement, id, string(text))
	if err != nil {
		return false, fmt.Errorf("writing document %s: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// Save is Put for a row that the transaction has locked: that it is gone is an
// error.
func Save(ctx context.Context, tx pgx.Tx, statement, id string, value any) error {
	written, err := Put(ctx, tx, statement, id, value)
	if err == nil && !written {
		return fmt.Errorf("writing document %s: the row is gone", id)
	}
	return err
}
