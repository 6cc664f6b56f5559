package outside

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

const (
	// openLong is the age, in leases, at which a person decides an open operation.
	openLong = 20
	// looks is the number of look-ups without a find before a parked operation is final. The second
	// look-up comes 20 leases after the first.
	looks = 2
)

// drain waits until nothing is due: no open operation, no recheck and no verdict, and every parked
// operation was looked up after its last possible effect.
func (t *trial) drain(ctx context.Context) error {
	d, err := dedup.New(t.db.Pool, nil)
	if err != nil {
		return err
	}
	tools, err := external.New(d, nil) // no tools: the worker carries verdicts out
	if err != nil {
		return err
	}
	return lab.Insist(ctx, func(ctx context.Context, _ int) error {
		if err := t.decide(ctx, tools); err != nil {
			return err
		}
		var due int
		err := t.db.Pool.QueryRow(ctx, `
			SELECT count(*)
			  FROM tool_effect
			 WHERE state IN ('pending', 'running')
			    OR due_at IS NOT NULL AND (state = 'done' OR verdict IS NOT NULL OR tries < $1::int)`, looks).Scan(&due)
		if err == nil && due > 0 {
			err = fmt.Errorf("%d operations are still due", due)
		}
		return err
	})
}

// decide plays the person who resolves listed operations that the provider never answers again, by
// the provider's book. An operation that is not listed stays open.
func (t *trial) decide(ctx context.Context, tools *external.Tools) error {
	book, stuck := t.provider.read()
	ops, err := tools.Open(ctx, t.db.Pool, external.List{OlderThan: leases(openLong), Limit: 1000})
	for _, op := range ops {
		n, _ := strconv.Atoi(op.Key)
		if !stuck[n] {
			continue
		}
		v := external.Refuse("it is not in the provider's book")
		if effects := book[operation{op.Tool, n}]; len(effects) > 0 {
			v = external.Happened(Charged{effects[0].ID}, "it is in the provider's book")
		}
		if failed := tools.Resolve(ctx, op, v); failed != nil { // another worker may hold it
			err = errors.Join(err, fmt.Errorf("resolving operation %d: %w", n, failed))
			continue
		}
		t.verdict.Became["resolved"]++
	}
	return err
}
