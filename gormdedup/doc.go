// Package gormdedup joins dedup and gorm. It is package sqldedup with a *gorm.DB in place of a
// *sql.Tx: effect, record and answer are one transaction, and gorm writes in it.
//
//	result, err := dedup.Do(ctx, d, call, gormdedup.Effect(db, func(ctx context.Context, tx *gorm.DB) (Note, error) {
//		note := Note{Text: "call the guest back"}
//		err := tx.Create(&note).Error
//		return note, err
//	}))
//
// Write through tx, and never through db itself: that is another connection, whose writes stay when
// the effect is rolled back and are made again with each run. dedupvet finds them.
//
// [Transaction] and [DoTx] commit several calls together, or a call and other writes.
//
// Open gorm once, on [sqldedup.OpenDB] of the Deduper's pool:
//
//	db, err := gorm.Open(postgres.New(postgres.Config{Conn: sqldedup.OpenDB(pool)}), &gorm.Config{})
//
// A gorm that was opened by a data source name serves as well. It has connections of its own beside
// those of the pool: SetMaxOpenConns and the pool's MaxConns together must fit the server.
package gormdedup
