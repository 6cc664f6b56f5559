package effectwrites

import (
	"context"
	"database/sql"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/gormdedup"
	"github.com/tooldedup/dedup/sqldedup"
	"gorm.io/gorm"
)

// orm returns the database of the service.
var orm func() *gorm.DB

type getters struct{ orm func() *gorm.DB }

func (o *orms) throughGetters(ctx context.Context, call dedup.Call, g getters, note any) {
	get := func() *gorm.DB { return o.gorm }
	dedup.Do(ctx, o.d, call, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
		orm().Create(note)                  // want `Create on a \*gorm.DB in an effect`
		orm().WithContext(ctx).Create(note) // want `Create on a \*gorm.DB in an effect`
		g.orm().Create(note)                // want `Create on a \*gorm.DB in an effect`
		get().Create(note)                  // want `Create on a \*gorm.DB in an effect`
		return 1, nil
	}))
}

func (o *orms) besideGorm(ctx context.Context, call dedup.Call, note any) {
	dedup.Do(ctx, o.d, call, gormdedup.Effect(o.gorm, func(ctx context.Context, tx *gorm.DB) (int, error) {
		o.gorm.Create(note) // want `Create on a \*gorm.DB in an effect`
		return 1, nil
	}))
	gormdedup.Transaction(ctx, o.d, o.gorm, func(tx *gorm.DB) error {
		_, err := gormdedup.DoTx(ctx, o.d, tx, call, func(ctx context.Context, tx *gorm.DB) (int, error) {
			return 1, o.gorm.Create(note).Error // want `Create on a \*gorm.DB in an effect`
		})
		return err
	})
}

// The transaction around a call is not Do's, and DoTx's is not the database.
func (o *orms) inATransaction(ctx context.Context, call dedup.Call, note any) {
	o.gorm.Transaction(func(outer *gorm.DB) error {
		_, err := dedup.Do(ctx, o.d, call, gormdedup.Effect(o.gorm, func(ctx context.Context, tx *gorm.DB) (int, error) {
			return 1, outer.Create(note).Error // want `Create on a \*gorm.DB in an effect`
		}))
		return err
	})
	o.gorm.Transaction(func(outer *gorm.DB) error {
		_, err := gormdedup.DoTx(ctx, o.d, outer, call, func(ctx context.Context, tx *gorm.DB) (int, error) {
			return 1, o.gorm.Create(note).Error // want `Create on a \*gorm.DB in an effect`
		})
		return err
	})
	db := o.gorm
	db.Transaction(func(outer *gorm.DB) error {
		_, err := sqldedup.DoTx(ctx, o.d, outer.Statement.ConnPool, call, func(ctx context.Context) (int, error) {
			return 1, db.Create(note).Error // want `Create on a \*gorm.DB in an effect`
		})
		return err
	})
	db.Transaction(func(outer *gorm.DB) error {
		return db.Transaction(func(inner *gorm.DB) error {
			_, err := gormdedup.DoTx(ctx, o.d, inner, call, func(ctx context.Context, tx *gorm.DB) (int, error) {
				return 1, outer.Create(note).Error // want `Create on a \*gorm.DB in an effect`
			})
			return err
		})
	})
}
