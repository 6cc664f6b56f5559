// Package sqldedup joins dedup and database/sql, and so ent, bun, sqlx, gorm and sqlc in its
// database/sql mode.
//
// An effect of dedup gets a pgx.Tx. [Effect] makes an effect of a function that takes a *sql.Tx
// or a *sql.DB in its place:
//
//	result, err := dedup.Do(ctx, d, call, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (id int, err error) {
//		err = tx.QueryRowContext(ctx, `INSERT INTO notes (text) VALUES ($1) RETURNING id`, text).Scan(&id)
//		return id, err
//	}))
//
// The guarantees are those of the function that runs the effect: [dedup.Do], [dedup.DoTx], the
// handlers of httpdedup and mcpdedup, tool.Tool's Run, and external.Tool's Finish and Refused.
// [Run] is Effect for those of them that take a pgx.Tx with other parameters beside it.
//
// [DoTx] is for the other direction: a transaction that database/sql or an ORM has begun, in
// which calls are to be made. Its caller runs it again where a call asks for that, with
// [dedup.ErrRestartTx].
//
// Both directions need pgx's own driver for database/sql. One pool serves everything:
// [OpenDB] is the *sql.DB for gorm.Open, bun.NewDB, sqlx.NewDb and ent. Package gormdedup is this
// package for gorm.
package sqldedup
