package stage

import (
	"context"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
)

// Reset is world.Reset of a domain's tables.
func (db *Database) Reset(ctx context.Context, domain string) error {
	if err := db.mark(ctx, domain); err != nil {
		return err
	}
	return world.Reset(ctx, db.Of(domain))
}

// Changed is world.Changed of a domain's tables.
func (db *Database) Changed(ctx context.Context, domain string) (recording.State, error) {
	if err := db.mark(ctx, domain); err != nil {
		return nil, err
	}
	return world.Changed(ctx, db.Of(domain), domain)
}

// mark finds out what was written where no trigger notes it.
func (db *Database) mark(ctx context.Context, domain string) error {
	if !db.Schemas() {
		return nil
	}
	return world.Mark(ctx, db.Of(domain))
}
