package deduptest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tooldedup/dedup/internal/faultproxy"
)

// plan lists the units that an undisturbed call sends and that execute something. Faults select a
// unit by its number, because its text may contain the call's key.
type plan struct {
	units []faultproxy.Unit
	// deciding is the number, from 1, of the unit that commits.
	deciding int
}

// executes selects the units that execute something, not those that only prepare.
func executes(u faultproxy.Unit) bool { return len(u.Executes) > 0 }

// watchUnits collects the units that execute something, until seen is called. It is a fault that
// selects no unit.
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

// rehearse makes a call without faults and records its units.
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
	return plan{units: units, deciding: deciding(units)}, v.learnTables(ctx, before)
}

// learnTables records how many rows the rehearsed call, the only one so far, added to each table.
func (v *verification) learnTables(ctx context.Context, before []int) error {
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

// deciding returns the number of the unit that commits the effect: the last unit with a COMMIT. A
// call of one statement, which commits itself, has none; then it is the last unit that writes a
// record.
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

// summary returns the beginning of each statement.
func summary(statements []string) string {
	const most = 40
	short := make([]string, len(statements))
	for i, sql := range statements {
		short[i] = clipped(strings.Join(strings.Fields(sql), " "), most)
	}
	return strings.Join(short, "; ")
}
