// Package gormdedup joins dedup and gorm. It is package sqldedup with a *gorm.DB instead of a
// *sql.Tx: effect and record are one transaction, and gorm writes in it.
//
//	result, err := dedup.Do(ctx, d, call, gormdedup.Effect(db, func(ctx context.Context, tx *gorm.DB) (Note, error) {
//		note := Note{Text: "call the guest back"}
//		err := tx.Create(&note).Error
//		return note, err
//	}))
//
// Write through tx, never through db. db uses another connection: its writes stay when the effect
// is rolled back, and every run repeats them. dedupvet finds such writes.
//
// [Transaction] and [DoTx] commit several calls together, or a call and other writes.
//
// Open gorm once, on [sqldedup.OpenDB] of the Deduper's pool:
//
//	db, err := gorm.Open(postgres.New(postgres.Config{Conn: sqldedup.OpenDB(pool)}), &gorm.Config{})
//
// A gorm that was opened with a data source name works too. Effects still run on the Deduper's pool,
// so both names must give the same database, role, search_path and TimeZone. gorm has its own
// connections besides: SetMaxOpenConns and the pool's MaxConns together must fit the server.
package gormdedup
