package dedup

import (
	"context"
	"errors"
	"fmt"
)

// contextError joins a context's cause to its error, so that both are found.
func contextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if cause == nil || cause == err {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// withContext adds the end of ctx to err where err does not hold it already.
func withContext(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(err, ctx.Err()) && errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("dedup: %w: %w", contextError(ctx), err)
}
