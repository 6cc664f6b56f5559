package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/replay/payment"
)

// paying is the driver's part in calls that pay outside the database. It has the provider,
// resolves parked calls, and compares calls, records and the provider's book.
type paying struct {
	provider *payment.Provider
	tools    *external.Tools // without tools: the workers carry verdicts out

	mu       sync.Mutex // for resolve
	external externalResult
}

// mishapsBy are the faults of a plan that allow a mishap of the provider.
var mishapsBy = map[payment.Mishap]faultKind{
	payment.RequestLost: cutBeforeCommit, payment.AnswerLost: lostAnswer,
	payment.KilledBefore: kill, payment.KilledAfter: kill, payment.Late: delayedCommit,
}

func (p *play) startPaying(ctx context.Context) error {
	pool := p.db.nodes[0]
	if err := payment.CreateNotes(ctx, pool); err != nil {
		return err
	}
	d, err := dedup.New(pool, nil)
	if err != nil {
		return err
	}
	tools, err := external.New(d, nil)
	if err != nil {
		return err
	}
	allowed := func(m payment.Mishap) bool { return p.kinds[mishapsBy[m]] }
	p.paying = &paying{
		provider: p.task.Pays.Start(p.seed, allowed, p.killNamed),
		tools:    tools, external: externalResult{Kind: p.task.Pays},
	}
	return nil
}

func (p *play) killNamed(worker string) {
	for _, place := range p.places {
		if place.task.Name == worker {
			place.seat.Kill()
		}
	}
}

// operation is the operation of a write.
func (p *paying) operation(ctx context.Context, w *written) (external.Operation, error) {
	key, err := keyOf(w.call)
	if err != nil {
		return external.Operation{}, err
	}
	status, err := p.tools.Status(ctx, scope(w.call), w.call.Tool, key)
	return status.Operation, err
}

// resolve resolves a parked write by the provider's book. Every parked twin calls it, and the
// others find it resolved. It returns the operation as it was before.
func (p *paying) resolve(ctx context.Context, s *session, w *written) (external.Operation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	op, err := p.operation(ctx, w)
	if err != nil || op.State != external.StateParked || op.Verdict != "" {
		return op, err
	}
	ids := p.provider.Book(w.ref)
	verdict := external.Never("the provider's book has nothing")
	if len(ids) > 0 {
		text, err := payment.Preview(ctx, s.db.nodes[0], w.ref)
		if err != nil {
			return op, fmt.Errorf("finding out what a parked call would have answered: %w", err)
		}
		verdict = external.Happened(payment.Out{ID: ids[0], Text: text}, "the provider's book has it")
	}
	if err := p.tools.Resolve(ctx, op, verdict); errors.Is(err, dedup.ErrInFlight) {
		return op, nil // a look-up has found it meanwhile
	} else if err != nil {
		return op, err
	}
	w.parked++
	p.external.Parked++
	if len(ids) > 0 {
		p.external.Happened++
	}
	// A look-up sees the whole book: effects are only late if they settle.
	if s.task.Pays.AlwaysKnows() || s.task.Pays == payment.LookUp && len(ids) > 0 {
		p.external.Known++
		s.say("%s: %s is parked, and it could be known: %s", w.ref, w.call.Tool, op.Note)
	}
	return op, nil
}

// check compares an answered write with its record and the provider's book.
func (p *paying) check(ctx context.Context, s *session, w *written) error {
	op, err := p.operation(ctx, w)
	if err != nil {
		return err
	}
	e, ids, want := &p.external, p.provider.Book(w.ref), 1
	e.Calls++
	if w.call.IsError {
		e.Refused++
		want = 0
	}
	e.Doubled += max(0, len(ids)-want)
	e.Lost += max(0, want-len(ids))
	recorded := ""
	if len(ids) > 0 {
		recorded = ids[0]
	}
	if op.State != external.StateDone || op.Ref != recorded || op.Twice != "" {
		e.Wrong++
	}
	noted, err := payment.Noted(ctx, s.db.nodes[0], w.ref, w.call.IsError)
	if err != nil {
		return err
	}
	if !noted {
		e.Local++
	}
	if len(ids) != want || !noted || op.Ref != recorded || op.Twice != "" {
		s.say("%s: %s: the provider's book has %q, its operation is %+v, its own writes are once: %t", w.ref, w.call.Tool, ids, op, noted)
	}
	if w.parked > 0 && w.faults == 0 && p.provider.Met(w.ref) == 0 {
		e.Known++
		s.say("%s: %s was parked, and nothing had happened to it", w.ref, w.call.Tool)
	}
	return nil
}

func (p *paying) result() *externalResult {
	e := p.external
	e.Requests, e.Mishaps = p.provider.Requests()
	return &e
}
