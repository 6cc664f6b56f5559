package lab

import (
	"context"
	"fmt"
)

// Trial is one arm of a campaign at work.
type Trial struct {
	Arm
	*Database
	Ledger *Ledger
	Params Params // Calls are those that are wanted of this arm
	Way    Way    // without dedup in a control arm
}

// Arms runs an arm with dedup and then its control, which has one in share of the calls and no fewer than least.
func (s *Score) Arms(ctx context.Context, l *Lab, p Params, share, least int, run func(context.Context, *Trial) error) error {
	for _, way := range []Way{ByDo, Plain} {
		if !way.Dedup() {
			p.Calls = max(p.Calls/share, least)
		}
		a, err := l.Try(ctx, p, way, run)
		s.EnterBy(way, a)
		if err != nil {
			return err
		}
	}
	return nil
}

// Try runs one arm in a database of its own, and returns what came of it.
func (l *Lab) Try(ctx context.Context, p Params, way Way, run func(context.Context, *Trial) error) (Arm, error) {
	t := &Trial{Ledger: NewLedger(), Params: p, Way: way}
	var err error
	if t.Database, err = l.Create(ctx); err != nil {
		return t.Arm, err
	}
	defer func() { _ = t.Drop(ctx) }()
	err = run(ctx, t)
	return t.Arm, err
}

// EnterBy adds an arm to the score, as a control where it is without dedup.
func (s *Score) EnterBy(way Way, a Arm) {
	if way.Dedup() {
		s.Enter(a)
	} else {
		s.EnterControl(a)
	}
}

// Settle settles the books up to now, counts the faults that were applied, and says how it stands.
func (t *Trial) Settle(ctx context.Context) (err error) {
	if t.Tally, err = t.Ledger.Settle(ctx, t.Pool); err != nil {
		return fmt.Errorf("settling the books: %w", err)
	}
	t.TakeFaults(&t.Arm)
	t.Params.Sayf("%s: %d calls, %d faults: %v", t.Way.Name, t.Calls, t.AllFaults(), t.Tally)
	return nil
}
