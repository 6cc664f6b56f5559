// Package backoff stands in for a package that retries.
package backoff

import "context"

func Retry[T any](ctx context.Context, operation func() (T, error)) (T, error) { return operation() }
