// Package gormdedup stands in for that of the library, as far as the cases use it.
package gormdedup

import (
	"context"

	"gorm.io/gorm"

	"github.com/tooldedup/dedup"
)

func Effect[R any](db *gorm.DB, fn func(ctx context.Context, tx *gorm.DB) (R, error)) dedup.Effect[R] {
	return nil
}

func Transaction(ctx context.Context, d *dedup.Deduper, db *gorm.DB, fn func(tx *gorm.DB) error) error {
	return nil
}

func DoTx[R any](ctx context.Context, d *dedup.Deduper, tx *gorm.DB, call dedup.Call, effect func(ctx context.Context, tx *gorm.DB) (R, error)) (dedup.Result[R], error) {
	return dedup.Result[R]{}, nil
}
