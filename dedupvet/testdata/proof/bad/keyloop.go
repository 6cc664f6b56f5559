package bad

import (
	"context"

	"github.com/tooldedup/dedup"
)

type ticket struct{ ID int }

func loop(ctx context.Context, d *dedup.Deduper) (err error) {
	for range 3 {
		call := dedup.Call{Scope: "acme", Tool: "open_ticket", Key: dedup.NewKey()}
		_, err = dedup.DoStatement[ticket](ctx, d, call, dedup.SQL(`INSERT INTO tickets (title) VALUES ('printer') RETURNING id`))
		if err == nil {
			break
		}
	}
	return err
}
