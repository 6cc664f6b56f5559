package world

import (
	"context"
	"fmt"
)

// Reset puts every row back to what Load wrote and empties the audit log, in
// one statement whose cost grows with the rows changed, not with the world.
//
// Call it between sessions. A transaction of a tool that is still in flight is
// waited for where it wrote a row that had been written before; what it
// commits later than the reset stays and is seen by Changed.
func Reset(ctx context.Context, db DB) error {
	if _, err := db.Exec(ctx, `SELECT restore_world()`); err != nil {
		return fmt.Errorf("resetting world: %w", err)
	}
	return nil
}
