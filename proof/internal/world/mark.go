package world

import (
	"context"
	"fmt"
)

// Untrack removes the triggers that note which rows are written. Citus refuses them on a
// distributed table. [Mark] does their work.
func Untrack(ctx context.Context, db DB) error {
	if _, err := db.Exec(ctx, `DROP FUNCTION mark_dirty CASCADE`); err != nil {
		return fmt.Errorf("removing the triggers: %w", err)
	}
	return nil
}

const markSQL = `
INSERT INTO dirty
SELECT 'airline_users', COALESCE(user_id, id)
FROM airline_users t
FULL JOIN (SELECT id, doc FROM pristine WHERE table_name = 'airline_users') p ON id = user_id
WHERE t.doc::text IS DISTINCT FROM p.doc::text
UNION ALL
SELECT 'airline_reservations', COALESCE(reservation_id, id)
FROM airline_reservations t
FULL JOIN (SELECT id, doc FROM pristine WHERE table_name = 'airline_reservations') p ON id = reservation_id
WHERE t.doc::text IS DISTINCT FROM p.doc::text
UNION ALL
SELECT 'retail_users', COALESCE(user_id, id)
FROM retail_users t
FULL JOIN (SELECT id, doc FROM pristine WHERE table_name = 'retail_users') p ON id = user_id
WHERE t.doc::text IS DISTINCT FROM p.doc::text
UNION ALL
SELECT 'retail_orders', COALESCE(order_id, id)
FROM retail_orders t
FULL JOIN (SELECT id, doc FROM pristine WHERE table_name = 'retail_orders') p ON id = order_id
WHERE t.doc::text IS DISTINCT FROM p.doc::text
ON CONFLICT DO NOTHING`

// Mark notes which rows differ from what Load wrote. After [Untrack], call it before [Reset] and
// [Changed]. It reads the whole world.
func Mark(ctx context.Context, db DB) error {
	if _, err := db.Exec(ctx, markSQL); err != nil {
		return fmt.Errorf("marking what has changed: %w", err)
	}
	return nil
}
