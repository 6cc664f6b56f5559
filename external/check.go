package external

import (
	"context"
	"errors"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/table"
	"github.com/tooldedup/dedup/internal/wire"
)

// Check reports whether the tool_effect table is there and can decide races. Call it at
// start-up, beside migrations.Check. The error is a [dedup.ErrSchema] or the database's.
func (x *Tools) Check(ctx context.Context) error {
	var sequence, key bool
	err := x.pool.QueryRow(ctx, x.sql.check).Scan(&sequence, &key)
	if err == nil {
		_, err = x.read(ctx, table.Identity{}) // every column
	}
	switch state := wire.SQLState(err); {
	case state == "42P01" || state == "42703" || state == "3F000": // undefined table, column, schema
		return schemaError("is missing, or lacks a column; apply the migrations", err)
	case err != nil:
		return failed("checking the table", err)
	case !sequence:
		return schemaError("lacks its sequence tool_effect_fence; apply the migrations", nil)
	case !key:
		return schemaError("lacks its primary key on scope, tool and key", nil)
	}
	return nil
}

func schemaError(problem string, err error) error {
	return &dedup.Error{Answer: dedup.ErrSchema, Err: errors.Join(errors.New("tool_effect "+problem), err)}
}
