package outside

import (
	"context"
	"errors"
	"time"

	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// lease is what is often written instead of the library: whoever finds the lease over
// runs again.
func (p *caller) lease(ctx context.Context, op int) (string, error) {
	for {
		tag, err := p.pool.Exec(ctx, `INSERT INTO leased (op, until) VALUES ($1, clock_timestamp() + $2::interval)
			ON CONFLICT (op) DO UPDATE SET until = EXCLUDED.until WHERE leased.answer IS NULL AND leased.until < clock_timestamp()`, op, p.Lease)
		if err != nil {
			return "", err
		}
		if tag.RowsAffected() > 0 {
			break
		}
		var answer *string
		if err := p.pool.QueryRow(ctx, `SELECT answer FROM leased WHERE op = $1`, op).Scan(&answer); err != nil {
			return "", err
		}
		if answer != nil {
			return *answer, nil
		}
		if !lab.Pause(ctx, p.Lease/20) {
			return "", ctx.Err()
		}
	}
	p.steps.at(external.EventSending)
	out, err := p.provider.charge(ctx, p.arm.name, "", time.Now(), Charge{op})
	if err != nil && !errors.Is(err, errDeclined) {
		return "", err
	}
	p.steps.at(external.EventAnswered)
	_, err = p.pool.Exec(ctx, `UPDATE leased SET answer = $2 WHERE op = $1`, op, out.ID)
	return out.ID, err
}
