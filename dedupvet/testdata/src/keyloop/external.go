package keyloop

import (
	"context"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

func retried(ctx context.Context, h *external.Handle[string, int], order string) (err error) {
	for range 3 {
		if _, err = h.Do(ctx, dedup.Call{Key: dedup.NewKey()}, order); err == nil { // want `Call.Key is minted by dedup.NewKey for every try`
			break
		}
	}
	key := dedup.NewKey()
	for range 3 {
		if _, err = h.Do(ctx, dedup.Call{Key: key}, order); err == nil {
			break
		}
	}
	return err
}
