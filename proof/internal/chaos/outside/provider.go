package outside

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// provider carries out charges and keeps a book of them. It lives in the campaign's process, so it
// survives the workers.
type provider struct {
	arm   arm
	fault func(kind string) // counts an applied fault
	rate  float64           // of faults
	after func(time.Duration) <-chan time.Time
	began time.Time

	mu      sync.Mutex
	rng     *rand.Rand
	calm    bool // requests meet no more faults
	outages int  // requests during an outage
	last    int  // the number of the last effect
	book    map[operation][]effect
	keys    map[string]*kept
	stuck   map[int]bool // operations whose key has a 500 for ever
}

// effect is one effect that happened.
type effect struct {
	ID          string
	at, visible time.Time
	marked      bool
}

func (e effect) String() string { return e.ID + " at " + e.at.UTC().Format(time.StampMilli) }

// kept is the state of a key since its first use. Its id is "" before there is an answer.
type kept struct {
	since time.Time
	id    string
	of    operation // the operation that it was rejected for
	// forgotten is set when the provider forgets the key for attempts that are claimed later.
	forgotten time.Time
}

// refusal is the id of a kept refusal.
const refusal = "refusal"

func newProvider(a arm, seed uint64, fault func(kind string)) *provider {
	p := &provider{
		arm: a, fault: fault, rate: rate, after: time.After, began: time.Now(), rng: rand.New(rand.NewPCG(seed, 6)),
		book: map[operation][]effect{}, keys: map[string]*kept{}, stuck: map[int]bool{},
	}
	if a.Control != right {
		p.rate = controlRate
	}
	return p
}

const (
	keyHeader = "Idempotency-Key"
	// claimedHeader has the time at which the attempt was claimed. An honest provider loses a
	// request that would take effect too long after it.
	claimedHeader = "Claimed"
	// markerHeader marks the effects that the later release finds. existsHeader marks a look-up
	// after the row has stored that the key was rejected.
	markerHeader, existsHeader = "Marker", "Exists"
	// cut is the status of an answer that is never sent.
	cut = -1
)

// ServeHTTP implements [http.Handler]: POST asks for an effect, and GET looks it up.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op, _ := strconv.Atoi(r.FormValue("op"))
	of := operation{r.FormValue("tool"), op}
	var status int
	var body any
	if r.Method == http.MethodGet {
		status, body = p.find(of, r.Header.Get(existsHeader) != "")
	} else {
		claimed, _ := strconv.ParseInt(r.Header.Get(claimedHeader), 10, 64)
		status, body = p.charge(of, r.Header.Get(keyHeader), r.Header.Get(markerHeader) != "", time.Unix(0, claimed))
	}
	if status == cut {
		panic(http.ErrAbortHandler) // closes the connection
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have been killed
}

// charge carries out a request, or applies its fault.
func (p *provider) charge(of operation, key string, marked bool, claimed time.Time) (status int, out Charged) {
	f, late := p.draw(of, key)
	switch {
	case f == lateAndCut:
		go func() {
			<-p.after(late)
			p.act(of, key, marked, f, claimed)
		}()
		return cut, out
	case f == lateEffect:
		<-p.after(late)
	case f.without:
		return f.status, out
	}
	status, out.ID = p.act(of, key, marked, f, claimed)
	if f == lateAnswer {
		<-p.after(late)
	}
	if f.status != 0 && status != cut {
		status = f.status
	}
	return status, out
}

// act carries an operation out, or refuses it. A late request is lost. A known key gets its kept
// answer.
func (p *provider) act(of operation, key string, marked bool, f fault, claimed time.Time) (status int, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	bound := max(p.arm.Settles, p.arm.Late)
	left := claimed.Add(leases(bound)).Sub(now)
	if bound > 0 && left < 0 {
		p.fault(tooLate)
		return cut, ""
	}
	if k := p.keys[key]; k != nil && !k.forgotten.IsZero() && claimed.After(k.forgotten) {
		delete(p.keys, key)
	}
	k := p.key(key, now)
	switch refuses := f == chanceRefusal || refuses(of); {
	case k.id != "" && k.id != refusal && p.arm.Rejects:
		k.of = of
		return http.StatusUnprocessableEntity, ""
	case k.id != "": // the key is known
	case refuses && !p.arm.KeepsRefusals:
		return http.StatusPaymentRequired, ""
	case refuses:
		k.id = refusal
	default:
		k.id = p.enter(of, marked, now, left)
	}
	switch {
	case k.id == refusal:
		return http.StatusPaymentRequired, ""
	case p.arm.Jobs:
		return http.StatusAccepted, ""
	}
	return http.StatusOK, k.id
}

// key returns the state of a key, and begins it if there is none.
func (p *provider) key(key string, now time.Time) *kept {
	k, known := p.keys[key]
	if forgets := leases(p.arm.Forgets); !known || key == "" || forgets > 0 && now.Sub(k.since) >= forgets {
		k = &kept{since: now}
		p.keys[key] = k
	}
	return k
}

// refuses are the operations that are always refused.
func refuses(of operation) bool {
	switch of.Tool {
	case sagaCharge, sagaRefund:
		return false
	case sagaShip:
		return of.Op%10 == 0
	}
	return of.Op%50 == 0
}

// enter adds an effect to the book. The effect may become visible a little later, if the arm bounds
// that.
func (p *provider) enter(of operation, marked bool, now time.Time, left time.Duration) (id string) {
	p.last++
	e := effect{ID: fmt.Sprint("ch_", p.last), at: now, visible: now, marked: marked}
	if p.arm.Rejects {
		e.visible = now.Add(leases(p.rng.Float64() * veryLate))
	}
	if p.arm.Settles > 0 && (p.arm.Jobs || p.rng.IntN(20) == 0) {
		e.visible = now.Add(time.Duration(p.rng.Float64() * float64(left)))
	}
	p.book[of] = append(p.book[of], e)
	return e.ID
}

// find returns the visible effect.
func (p *provider) find(of operation, exists bool) (status int, found []Charged) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if exists { // no attempt follows, but a halted one may still send its request
		for _, k := range p.keys {
			if k.of == of && k.forgotten.IsZero() {
				k.forgotten = time.Now()
			}
		}
	}
	if f := p.drawFault(); f.without {
		p.fault(notFound)
		return f.status, nil
	}
	for _, e := range p.book[of] {
		if !time.Now().Before(e.visible) && (e.marked || !p.arm.Releases) {
			found = append(found, Charged{e.ID})
		}
	}
	return http.StatusOK, found
}

// calmDown ends all faults. Delayed requests still arrive.
func (p *provider) calmDown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm = true
}

// read returns the book and the operations whose key has a 500 for ever.
func (p *provider) read() (book map[operation][]effect, stuck map[int]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.book), maps.Clone(p.stuck)
}
