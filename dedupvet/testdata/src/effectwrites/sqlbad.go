package effectwrites

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	"github.com/jmoiron/sqlx"
	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/sqldedup"
	"github.com/uptrace/bun"
	"gorm.io/gorm"

	"ent"
	"sqlstore"
)

// orms are databases and their own transactions.
type orms struct {
	d       *dedup.Deduper
	db      *sql.DB
	tx      *sql.Tx
	gorm    *gorm.DB
	bun     *bun.DB
	bunTx   bun.Tx
	sqlx    *sqlx.DB
	sqlxTx  *sqlx.Tx
	ent     *ent.Client
	queries *sqlstore.Queries
}

func (o *orms) besideTheHandle(ctx context.Context, call dedup.Call, note any) {
	dedup.Do(ctx, o.d, call, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
		o.db.ExecContext(ctx, insert)                      // want `ExecContext on a \*sql.DB in an effect: this is not part of its transaction`
		o.tx.ExecContext(ctx, insert)                      // want `ExecContext on a \*sql.Tx in an effect`
		o.gorm.Create(note)                                // want `Create on a \*gorm.DB in an effect`
		o.gorm.WithContext(ctx).Create(note)               // want `Create on a \*gorm.DB`
		gorm.G[int](o.gorm).Create(ctx, nil)               // want `a \*gorm.DB is handed to G`
		o.bun.NewInsert().Model(note).Exec(ctx)            // want `Exec on a \*bun.InsertQuery`
		o.bunTx.NewInsert().Exec(ctx)                      // want `Exec on a \*bun.InsertQuery`
		o.bunTx.ExecContext(ctx, insert)                   // want `ExecContext on a \*sql.Tx`
		o.sqlx.GetContext(ctx, note, insert)               // want `GetContext on a \*sqlx.DB`
		o.sqlxTx.GetContext(ctx, note, insert)             // want `GetContext on a \*sqlx.Tx`
		sqlx.GetContext(ctx, o.sqlx, note, insert)         // want `a \*sqlx.DB is handed to GetContext in an effect`
		o.ent.Note.Create().SetText("x").Save(ctx)         // want `Save on a \*ent.NoteCreate`
		o.queries.AddNote(ctx, "x")                        // want `AddNote of queries that are not bound to the transaction in an effect`
		sqlstore.New(o.db).AddNote(ctx, "x")               // want `a \*sql.DB is handed to New in an effect`
		sqlx.NewDb(o.db, "pgx").GetContext(ctx, 0, insert) // want `a \*sql.DB is handed to NewDb`
		o.gorm.Transaction(func(tx *gorm.DB) error {       // want `Transaction on a \*gorm.DB`
			return tx.Create(note).Error
		})
		own := o.gorm.Begin() // want `Begin on a \*gorm.DB`
		own.Create(note)      // begun here, and that is reported
		add(ctx, o.db)        // reported there
		o.add(note)
		return 1, nil
	}))
}

func add(ctx context.Context, db *sql.DB) {
	db.ExecContext(ctx, insert) // want `ExecContext on a \*sql.DB in add, which an effect calls`
}

func (o *orms) add(note any) {
	o.gorm.Create(note) // want `Create on a \*gorm.DB in add, which an effect calls`
}

// Other transactions beside the caller's.
func (o *orms) besideTheCallers(ctx context.Context, call dedup.Call, tx bun.Tx, other *sqlx.Tx, note any) {
	client := ent.NewClient(ent.Driver(dialect.OpenDB(o.db)))
	sqldedup.DoTx(ctx, o.d, tx.Tx, call, func(ctx context.Context) (int, error) {
		o.db.ExecContext(ctx, insert)       // want `ExecContext on a \*sql.DB in an effect`
		o.pool().ExecContext(ctx, insert)   // want `ExecContext on a \*sql.DB in an effect`
		o.gorm.Create(note)                 // want `Create on a \*gorm.DB`
		other.GetContext(ctx, note, insert) // want `GetContext on a \*sqlx.Tx`
		client.Note.Create().Save(ctx)      // want `Save on a \*ent.NoteCreate`
		o.queries.AddNote(ctx, "x")         // want `AddNote of queries that are not bound`
		return 1, nil
	})
	sqldedup.DoTx(ctx, o.d, o.bunTx.Tx, call, o.effect)
	sqldedup.DoTx(ctx, o.d, o.tx, call, func(ctx context.Context) (int, error) {
		o.db.ExecContext(ctx, insert) // want `ExecContext on a \*sql.DB`
		_, err := o.tx.ExecContext(ctx, insert)
		return 1, err
	})
}

func (o *orms) pool() *sql.DB { return o.db }

func (o *orms) effect(ctx context.Context) (int, error) {
	o.db.ExecContext(ctx, insert) // want `ExecContext on a \*sql.DB in an effect`
	_, err := o.bunTx.NewInsert().Exec(ctx)
	return 1, err
}
