package deduptest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// plan is what an undisturbed call sends: the units that execute something. Faults
// are aimed by their number, since their texts may hold a call's key.
type plan struct {
	units []faultproxy.Unit
	// deciding is the number, from 1, of the one that commits.
	deciding int
}

// executes aims at the units that execute something, and so at none that only prepare.
func executes(u faultproxy.Unit) bool { return len(u.Executes) > 0 }

// watchUnits keeps what executes something, until it is asked for. It is a fault that picks no unit.
func watchUnits(p *faultproxy.Proxy) (seen func() []faultproxy.Unit) {
	var mu sync.Mutex
	var units []faultproxy.Unit
	watch := p.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: func(u faultproxy.Unit) bool {
		mu.Lock()
		defer mu.Unlock()
		if executes(u) {
			units = append(units, u)
		}
		return false
	}})
	return func() []faultproxy.Unit {
		watch.Disarm()
		mu.Lock()
		defer mu.Unlock()
		return units
	}
}

// rehearse makes a call without faults and looks what it sends.
func (v *verification) rehearse(ctx context.Context) (plan, error) {
	s, err := v.openStage(ctx, v.tool, nil)
	if err != nil {
		return plan{}, err
	}
	before, err := v.read(ctx)
	if err != nil {
		return plan{}, errors.Join(err, s.close(v.patience))
	}
	seen := watchUnits(s.proxy)
	r := <-v.tool.start(ctx, v.patience, s, v.newKey(), 0)
	if err := s.close(v.patience); err != nil {
		return plan{}, err
	}
	units := seen()
	switch {
	case r.err != nil:
		return plan{}, fmt.Errorf("a call without any fault fails: %w", r.err)
	case len(units) == 0:
		return plan{}, errors.New("the call sent nothing to the database; Tool.Call must use Try.Deduper and Try.Pool")
	}
	return plan{units: units, deciding: deciding(units)}, v.learn(ctx, before)
}

// learn notes what the rehearsed call, the only one so far, has added to each table.
func (v *verification) learn(ctx context.Context, before []int) error {
	if len(before) == 0 {
		return nil
	}
	effects, err := v.count(ctx)
	if err != nil {
		return err
	}
	rows, err := v.read(ctx)
	if err != nil {
		return err
	}
	v.tables = tables{names: v.tool.Tables, rows: rows, per: make([]int, len(rows)), effects: effects}
	for i := range rows {
		v.tables.per[i] = rows[i] - before[i]
	}
	return nil
}

// deciding returns the number of the unit whose execution commits the effect: the
// last one with a COMMIT. A call that is one statement and commits with it has
// none; then it is the last one that writes a record.
func deciding(units []faultproxy.Unit) int {
	record := faultproxy.AtSQL("INSERT INTO")
	n := len(units)
	for i, u := range units {
		if record(u) && faultproxy.AtSQL("tool_dedup")(u) {
			n = i + 1
		}
	}
	for i, u := range units {
		if u.Commits {
			n = i + 1
		}
	}
	return n
}

// name describes the nth unit.
func (p plan) name(n int) string {
	return fmt.Sprintf("statement %d of %d (%s)", n, len(p.units), summary(p.units[n-1].Executes))
}

// summary shows the beginning of each statement.
func summary(statements []string) string {
	const most = 40
	short := make([]string, len(statements))
	for i, sql := range statements {
		short[i] = clipped(strings.Join(strings.Fields(sql), " "), most)
	}
	return strings.Join(short, "; ")
}
