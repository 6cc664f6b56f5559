package way

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// createTextbook makes a twin of tool_dedup.
func createTextbook(ctx context.Context, pool *pgxpool.Pool) error {
	if err := CreateRecords(ctx, pool); err != nil {
		return err
	}
	_, err := pool.Exec(ctx, `ALTER TABLE tool_dedup RENAME TO textbook`)
	return err
}

// textbook is the well-known pattern: look, act and record in one transaction, each with a separate
// trip. It only covers the easy case: a lost race is an error, and a lost COMMIT has no answer.
func textbook(_ context.Context, s *Session) (caller, error) {
	return func(ctx context.Context, keys []string) error {
		return pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error { return lookActRecord(ctx, tx, keys[0]) })
	}, nil
}

func lookActRecord(ctx context.Context, tx pgx.Tx, key string) error {
	arguments, err := json.Marshal(args{Ref: key})
	if err != nil {
		return err
	}
	fingerprint := sha256.Sum256(arguments)
	var recorded []byte
	var answer string
	err = tx.QueryRow(ctx, `
		SELECT fingerprint, result
		FROM textbook
		WHERE scope = $1 AND tool = $2 AND key = $3`, Scope, Tool, key).Scan(&recorded, &answer)
	if err == nil {
		return replay(recorded, fingerprint, answer)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	r, err := insert(ctx, tx, key)
	if err != nil {
		return err
	}
	result, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO textbook (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
		VALUES ($1, $2, $3, $4, 'done', $5, now(), now() + interval '1 day', now() + interval '31 days')`,
		Scope, Tool, key, fingerprint[:], string(result))
	return err
}

func replay(recorded []byte, fingerprint [sha256.Size]byte, answer string) error {
	if [sha256.Size]byte(recorded) != fingerprint {
		return errors.New("the key was used with other arguments")
	}
	var r row
	if err := json.Unmarshal([]byte(answer), &r); err != nil {
		return fmt.Errorf("reading the record: %w", err)
	}
	return nil
}
