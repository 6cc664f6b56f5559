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

// Textbook is the pattern as it is written down everywhere: look, act, record,
// in one transaction, each with a trip of its own. Its table is tool_dedup's
// twin. What it lacks is all but the easy case: a lost race is an error to it,
// and the answer to a lost COMMIT is not known.
func Textbook() Way {
	return Way{
		Name: "textbook", Title: "textbook pattern", Batch: 1, Replays: true, OneKey: true,
		Prepare: func(ctx context.Context, pool *pgxpool.Pool) error {
			if err := createRecords(ctx, pool); err != nil {
				return err
			}
			_, err := pool.Exec(ctx, `ALTER TABLE tool_dedup RENAME TO textbook`)
			return err
		},
		Open: withPool(textbook),
	}
}

func textbook(ctx context.Context, pool *pgxpool.Pool, key string) error {
	arguments, err := json.Marshal(args{Ref: key})
	if err != nil {
		return err
	}
	fingerprint := sha256.Sum256(arguments)
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var recorded []byte
		var answer string
		err := tx.QueryRow(ctx, `
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
	})
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
