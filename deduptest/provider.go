package deduptest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Provider plays the part of what carries out effects outside of the database: it acts
// when it is asked to, and keeps a book of what really happened. It speaks no protocol. A
// fake of the real provider's API, mostly a handler of an httptest.Server, reads the
// request, asks the Provider, and answers as the real one would. So the tool's own client
// is tried.
//
// The fields say what the real provider offers, whatever the tool declares. They must not
// be changed once it is used. A Provider is safe for concurrent use.
type Provider struct {
	// KeyKept is how long a key and its answer are kept after the key's first use. Zero, the
	// default, means that keys are of no meaning; see external.Forever.
	KeyKept time.Duration
	// ActsLate is the longest time after which a request that was not answered may still
	// take effect. Default 0: at once or never. [VerifyEffect] has requests that are so late.
	ActsLate time.Duration
	// SeesLate is how long after an effect Find begins to see it. Default 0.
	SeesLate time.Duration
	// Refuses says that a request may be refused, with [ErrRefused]. A refusal is kept under
	// its key.
	Refuses bool

	mu      sync.Mutex
	elapsed time.Duration // by which its clock is ahead of the machine's
	book    []effect
	kept    map[string]kept // by key
	faults  faults
	asked   int // how often Act was
}

var (
	// ErrNoAnswer is what Act and Find return where the answer does not come. The fake cuts
	// the connection then, as panic(http.ErrAbortHandler) does in a handler.
	ErrNoAnswer = errors.New("deduptest: the provider does not answer")
	// ErrRefused is what Act returns where the provider refuses. The fake answers as the real
	// one does then, with 402 for instance.
	ErrRefused = errors.New("deduptest: the provider refuses")
	// ErrConflict, ErrBusy and ErrFault are what Act returns where the answer says nothing of the
	// effect: it may have happened. The fake answers as the real one does then, mostly with 409, 429
	// and 500. [VerifyEffect] has ErrBusy without an effect; where keys are kept, with one too.
	ErrConflict = errors.New("deduptest: another request is at it")
	ErrBusy     = errors.New("deduptest: too many requests")
	ErrFault    = errors.New("deduptest: the provider has failed")
)

// effect is what happened once.
type effect struct {
	id, about   string
	at, visible time.Time
}

// kept is the answer that is kept under a key.
type kept struct {
	id string // "" where it was refused
	at time.Time
}

// faults are what goes wrong until it is changed.
type faults struct {
	requests []mishap // of the next requests, in order
	lookups  int      // how many are not answered
	refusing bool     // every request is refused
}

// mishap is how a request fails: with an error, before it takes effect, after that, or with an effect
// that comes late.
type mishap struct {
	err           error
	happens, late bool
}

var (
	requestLost = mishap{err: ErrNoAnswer}
	answerLost  = mishap{err: ErrNoAnswer, happens: true}
	lateAndLost = mishap{err: ErrNoAnswer, happens: true, late: true}
)

// Act asks for an effect: for an id that names it, or for an error. key is the key of the
// request, "" where it has none; a key that is kept gets its first answer. about is what
// Find goes by: the key, or a marker made of it, such as a reference or a line in a text.
func (p *Provider) Act(key, about string) (id string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	met := mishap{happens: true}
	if len(p.faults.requests) > 0 {
		met, p.faults.requests = p.faults.requests[0], p.faults.requests[1:]
	}
	if met.happens {
		id = p.act(key, about, met.late)
	}
	switch {
	case met.err != nil:
		return "", met.err
	case id == "":
		return "", ErrRefused
	}
	return id, nil
}

// act does it, unless it was done under the key. It returns "" for a refusal.
func (p *Provider) act(key, about string, late bool) (id string) {
	now := p.now()
	if a, ok := p.kept[key]; ok && now.Sub(a.at) < p.KeyKept {
		return a.id
	}
	if !p.faults.refusing {
		e := effect{id: fmt.Sprint("effect_", len(p.book)+1), about: about, at: now}
		if late {
			e.at = now.Add(p.ActsLate)
		}
		e.visible = e.at.Add(p.SeesLate)
		p.book = append(p.book, e)
		id = e.id
	}
	if p.KeyKept > 0 && key != "" {
		if p.kept == nil {
			p.kept = map[string]kept{}
		}
		p.kept[key] = kept{id, now}
	}
	return id
}

// Find returns the ids of all effects about something that can be seen by now.
func (p *Provider) Find(about string) (ids []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.faults.lookups > 0 {
		p.faults.lookups--
		return nil, ErrNoAnswer
	}
	now := p.now()
	for _, e := range p.book {
		if e.about == about && !now.Before(e.visible) {
			ids = append(ids, e.id)
		}
	}
	return ids, nil
}

// Book returns the ids of all effects about something, those included that Find does not
// see yet.
func (p *Provider) Book(about string) (ids []string) {
	for _, e := range p.since(0) {
		if e.about == about {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// now is the provider's clock.
func (p *Provider) now() time.Time { return time.Now().Add(p.elapsed) }

// elapse moves the provider's clock on.
func (p *Provider) elapse(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elapsed += d
}

// setFaults makes something go wrong from now on, and returns what was to go wrong and has not yet.
func (p *Provider) setFaults(f faults) (left faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left, p.faults = p.faults, f
	return left
}

// since returns the book from a page on.
func (p *Provider) since(page int) []effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.book[page:])
}

// requests returns how often Act was asked, and how long the book is.
func (p *Provider) requests() (asked, page int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, len(p.book)
}

// clock is now for who does not hold the lock.
func (p *Provider) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now()
}
