package bad

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

func outside(ctx context.Context, d *dedup.Deduper, call dedup.Call, req *http.Request) error {
	_, err := dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	})
	return err
}
