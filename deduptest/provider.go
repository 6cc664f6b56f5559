package deduptest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Provider stands for a provider outside the database: it performs effects and records the ones
// that happened in its book. It speaks no protocol. A fake of the real provider's API, usually a
// handler of an httptest.Server, reads the request, asks the Provider, and answers as the real API
// would. So the test covers the tool's own client.
//
// The fields declare the guarantees of the real provider, independently of the tool's. Do not
// change them after the first use. A Provider is safe for concurrent use.
type Provider struct {
	// KeyKept is how long a key and its answer are kept after the key's first use; see
	// external.Forever. Default: 0, which means that the provider ignores keys.
	KeyKept time.Duration
	// ActsLate is the longest time after which a request without an answer may still take effect.
	// [VerifyEffect] makes such requests. Default: 0, which means at once or never.
	ActsLate time.Duration
	// SeesLate is the delay between an effect and the first Find that returns it. Default: 0.
	SeesLate time.Duration
	// Refuses declares that the provider may refuse a request, with [ErrRefused]. A refusal is kept
	// under its key. Default: false.
	Refuses bool

	mu      sync.Mutex
	elapsed time.Duration // how far its clock is ahead of the machine's
	book    []effect
	kept    map[string]kept // by key
	faults  faults
	asked   int // the number of calls of Act
}

var (
	// ErrNoAnswer is returned by Act and Find if the answer is lost. The fake then cuts the
	// connection, as panic(http.ErrAbortHandler) does in a handler.
	ErrNoAnswer = errors.New("deduptest: the provider does not answer")
	// ErrRefused is returned by Act if the provider refuses. The fake then answers as the real API
	// does, for instance with 402.
	ErrRefused = errors.New("deduptest: the provider refuses")
	// ErrConflict, ErrBusy and ErrFault are returned by Act if the answer does not tell whether the
	// effect happened. The fake then answers as the real API does, usually with 409, 429 and 500.
	// [VerifyEffect] uses ErrBusy without an effect and, if keys are kept, also with one.
	ErrConflict = errors.New("deduptest: another request is at it")
	ErrBusy     = errors.New("deduptest: too many requests")
	ErrFault    = errors.New("deduptest: the provider has failed")
)

// effect is one effect that happened.
type effect struct {
	id, about   string
	at, visible time.Time
}

// kept is the answer that is kept under a key.
type kept struct {
	id string // "" where it was refused
	at time.Time
}

// faults are the faults that are set.
type faults struct {
	requests []mishap // for the next requests, in order
	lookups  int      // the number of look-ups without an answer
	refusing bool     // every request is refused
}

// mishap is a request's fault: an error before or after the effect, or with an effect that comes
// late.
type mishap struct {
	err           error
	happens, late bool
}

var (
	requestLost = mishap{err: ErrNoAnswer}
	answerLost  = mishap{err: ErrNoAnswer, happens: true}
	lateAndLost = mishap{err: ErrNoAnswer, happens: true, late: true}
)

// Act requests an effect and returns its id, or an error. key is the request's key, or "" if it has
// none; a key that is kept gets its first answer again. about is the value that Find searches for:
// the key, or a marker made from it, such as a reference or a line in a text.
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

// act performs the effect, unless it was done under the key. It returns "" for a refusal.
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

// Find returns the ids of the effects with this value of about that are visible by now.
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

// Book returns the ids of all effects with this value of about, visible or not.
func (p *Provider) Book(about string) (ids []string) {
	for _, e := range p.since(0) {
		if e.about == about {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// now returns the provider's time.
func (p *Provider) now() time.Time { return time.Now().Add(p.elapsed) }

// elapse advances the provider's clock.
func (p *Provider) elapse(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.elapsed += d
}

// setFaults sets the faults from now on, and returns the earlier ones that are left.
func (p *Provider) setFaults(f faults) (left faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left, p.faults = p.faults, f
	return left
}

// since returns the effects from a page of the book on.
func (p *Provider) since(page int) []effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.book[page:])
}

// requests returns the number of calls of Act and the length of the book.
func (p *Provider) requests() (asked, page int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, len(p.book)
}

// clock is now for callers that do not hold the lock.
func (p *Provider) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now()
}
