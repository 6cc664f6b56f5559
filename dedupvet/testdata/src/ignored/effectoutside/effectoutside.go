package effectoutside

import (
	"context"
	"net/http"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup"
)

func ignored(ctx context.Context, d *dedup.Deduper, call dedup.Call) {
	dedup.Do(ctx, d, call, func(ctx context.Context, tx pgx.Tx) (int, error) {
		http.Get("https://example.com") //dedupvet:ignore it is known
		http.Get("https://example.com") // want `http.Get in an effect`
		//dedupvet:ignore it is known
		http.Get("https://example.com")
		http.Get("https://example.com") // want `http.Get in an effect`
		//dedupvet:ignore
		http.Get("https://example.com") // want `http.Get in an effect`
		//dedupvet:ignored by nobody
		http.Get("https://example.com") // want `http.Get in an effect`
		return 1, nil
	})
}
