package world

import (
	"context"
	"fmt"
	"strings"
)

// Untrack removes the triggers that note which rows are written. Citus refuses them on a
// distributed table. [Mark] does their work.
func Untrack(ctx context.Context, db DB) error {
	if _, err := db.Exec(ctx, `DROP FUNCTION mark_dirty CASCADE`); err != nil {
		return fmt.Errorf("removing the triggers: %w", err)
	}
	return nil
}

// Mark notes which rows differ from what Load wrote. After [Untrack], call it before [Reset] and
// [Changed]. It reads the whole world.
func Mark(ctx context.Context, db DB) error {
	var changed []string
	for _, target := range documents {
		if target.kept {
			changed = append(changed, fmt.Sprintf(`
				SELECT '%[1]s', COALESCE(%[2]s, id)
				FROM %[1]s t
				FULL JOIN (SELECT id, doc FROM pristine WHERE table_name = '%[1]s') p ON id = %[2]s
				WHERE t.doc::text IS DISTINCT FROM p.doc::text`, target.table, target.id))
		}
	}
	// One statement, so that nothing is written between the tables.
	if _, err := db.Exec(ctx, "INSERT INTO dirty"+strings.Join(changed, " UNION ALL")+" ON CONFLICT DO NOTHING"); err != nil {
		return fmt.Errorf("marking what has changed: %w", err)
	}
	return nil
}
