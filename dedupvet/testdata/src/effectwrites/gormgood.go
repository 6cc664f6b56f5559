package effectwrites

import (
	"context"
	"database/sql"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/gormdedup"
	"github.com/tooldedup/dedup/sqldedup"
	"gorm.io/gorm"
)

func (o *orms) throughGorm(ctx context.Context, call dedup.Call, note any) {
	dedup.Do(ctx, o.d, call, gormdedup.Effect(o.gorm, func(ctx context.Context, tx *gorm.DB) (int, error) {
		get := func() *gorm.DB { return tx }
		get().Create(note)
		createBy(get, note)
		return 1, tx.Create(note).Error
	}))
	gormdedup.Transaction(ctx, o.d, o.gorm, func(tx *gorm.DB) error {
		_, err := gormdedup.DoTx(ctx, o.d, tx, call, func(ctx context.Context, inner *gorm.DB) (int, error) {
			tx.Create(note)
			return 1, inner.Create(note).Error
		})
		return err
	})
	o.gorm.Transaction(func(tx *gorm.DB) error {
		_, err := gormdedup.DoTx(ctx, o.d, tx, call, func(ctx context.Context, inner *gorm.DB) (int, error) {
			tx.WithContext(ctx).Create(note)
			return 1, inner.Create(note).Error
		})
		return err
	})
}

func createBy(get func() *gorm.DB, note any) { get().Create(note) }

// of returns the session that a context carries.
var of func(ctx context.Context) *gorm.DB

func (o *orms) throughTheContext(ctx context.Context, call dedup.Call, note any) {
	dedup.Do(ctx, o.d, call, sqldedup.Effect(func(ctx context.Context, tx *sql.Tx) (int, error) {
		return 1, of(ctx).Create(note).Error
	}))
}
