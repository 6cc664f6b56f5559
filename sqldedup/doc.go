// Package sqldedup joins dedup and database/sql, and so ent, bun, sqlx, gorm and sqlc in its
// database/sql mode.
//
// An effect of dedup gets a pgx.Tx. [Effect] makes one from a function of a *sql.Tx or a *sql.DB:
//
//	result, err := dedup.Do(ctx, d, call, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (id int, err error) {
//		err = tx.QueryRowContext(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, text).Scan(&id)
//		return id, err
//	}))
//
// The guarantees come from the function that runs the effect: [dedup.Do], [dedup.DoTx], the
// handlers of httpdedup and mcpdedup, tool.Tool's Run, and external.Tool's Finish and Refused.
// [Run] is Effect for functions that take more than a context and a pgx.Tx.
//
// [DoTx] is for the other direction: calls in a transaction that database/sql or an ORM began. Run
// that transaction again after [dedup.ErrRestartTx].
//
// Both directions need pgx's own driver for database/sql. One pool serves everything: [OpenDB]
// returns the *sql.DB for gorm.Open, bun.NewDB, sqlx.NewDb and ent. Package gormdedup is this
// package for gorm.
package sqldedup
