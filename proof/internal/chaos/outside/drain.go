package outside

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// openLong is how old an operation is that a person decides about, in leases.
	openLong = 20
	// looks is how many looks that found nothing must have been made for a parked operation,
	// in the long form: the second one is 20 leases after the first.
	looks = 2
)

// drain waits until nothing is due: no operation is open, no audit, no verdict, and for what is
// parked a look was made after all that may have happened.
func (t *trial) drain(ctx context.Context) error {
	d, err := dedup.New(t.db.Pool, nil)
	if err != nil {
		return err
	}
	tools, err := external.New(d, nil) // it has no tool: the workers carry verdicts out
	if err != nil {
		return err
	}
	parked := looks
	if t.form.short {
		parked = 0
	}
	for began := time.Now(); ; {
		if err := t.decide(ctx, tools); err != nil {
			return err
		}
		var open int
		err := t.db.Pool.QueryRow(ctx, `SELECT count(*) FROM tool_effect
			WHERE state IN ('pending', 'running')
			   OR due_at IS NOT NULL AND (state = 'done' OR verdict IS NOT NULL OR tries < $1::int)`, parked).Scan(&open)
		if err != nil {
			return fmt.Errorf("waiting for what is due: %w", err)
		}
		if open == 0 {
			return nil
		}
		if time.Since(began) > lab.Patience {
			return fmt.Errorf("%d operations are still due after %v of calm", open, lab.Patience)
		}
		if !lab.Pause(ctx, t.form.lease/4) {
			return ctx.Err()
		}
	}
}

// decide is a person who resolves the operations that the provider never answers again, by its
// books, when they are listed as open. One that is not listed stays open.
func (t *trial) decide(ctx context.Context, tools *external.Tools) error {
	stuck := t.provider.unanswerable()
	if len(stuck) == 0 {
		return nil
	}
	ops, err := tools.Open(ctx, tools.Deduper().Pool(), external.Operation{}, leases(openLong, t.form.lease), 1000)
	if err != nil {
		return err
	}
	for _, op := range ops {
		n, err := strconv.Atoi(op.Key)
		if err != nil {
			return err
		}
		if !stuck[n] {
			continue
		}
		v := external.Refuse("it is not in the provider's books")
		if effects := t.provider.effects(op.Tool)[n]; len(effects) > 0 {
			v = external.Happened(Charged{effects[0].ID}, "it is in the provider's books")
		}
		err = tools.Resolve(ctx, op, v)
		switch {
		case err == nil:
			t.verdict.Resolved++
		case errors.Is(err, dedup.ErrInFlight), errors.As(err, new(*external.VerdictError)): // it is tried again
		default:
			return fmt.Errorf("resolving operation %d: %w", n, err)
		}
	}
	return nil
}
