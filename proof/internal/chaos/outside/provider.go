package outside

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// provider carries out charges, and keeps books of them. It lives in the campaign's own
// process, and survives what is done to the workers.
type provider struct {
	arm  *arm
	form form
	URL  string

	server *http.Server
	mu     sync.Mutex
	rng    *rand.Rand
	calm   bool
	down   time.Time // until then there is an outage
	last   int
	books  map[string]map[int][]effect // by tool and operation
	kept   map[string]kept             // by key
	first  map[string]time.Time        // when a key was first used, where that counts
	stuck  map[int]bool                // operations whose key has a 500
	counts map[string]int              // faults that were applied
}

// effect is what happened once.
type effect struct {
	ID          string
	at, visible time.Time
}

// kept is the answer that is kept under a key. ID is empty where it was a refusal.
type kept struct {
	ID string
	at time.Time
}

func startProvider(a *arm, f form, seed uint64) (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the provider: %w", err)
	}
	p := &provider{
		arm: a, form: f, URL: "http://" + l.Addr().String(), rng: rand.New(rand.NewPCG(seed, 6)),
		books: map[string]map[int][]effect{}, kept: map[string]kept{}, first: map[string]time.Time{}, stuck: map[int]bool{}, counts: map[string]int{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{tool}", p.charge)
	mux.HandleFunc("GET /{tool}", p.find)
	p.server = &http.Server{Handler: mux}
	go func() { _ = p.server.Serve(l) }()
	return p, nil
}

func (p *provider) close() { _ = p.server.Close() }

// charge is a request to do something.
func (p *provider) charge(w http.ResponseWriter, r *http.Request) {
	var asked Charge
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil { // cut off: nothing has come
		return
	}
	claimed, _ := strconv.ParseInt(r.Header.Get(claimedHeader), 10, 64)
	until := p.until(time.Unix(0, claimed))
	tool, key := r.PathValue("tool"), r.Header.Get(keyHeader)
	f, late := p.draw(tool, key, asked.Op)
	if f != lostRequest {
		p.use(key)
	}
	if f != lostRequest && p.keeps(f, asked.Op) {
		w.WriteHeader(http.StatusInternalServerError)
		if f == failsAfter {
			_, _, _ = p.act(tool, key, asked.Op, f, until)
		}
		return
	}
	switch f {
	case lostRequest:
		cut(w)
		return
	case busy:
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case failsBefore:
		w.WriteHeader(http.StatusInternalServerError)
		return
	case inFlight:
		w.WriteHeader(http.StatusConflict)
		return
	case lateAndCut:
		cut(w)
		fallthrough
	case lateEffect:
		<-time.After(late)
	}
	id, refused, ok := p.act(tool, key, asked.Op, f, until)
	switch {
	case f == lateAndCut:
	case !ok || f == lostAnswer:
		cut(w)
	case f == failsAfter:
		w.WriteHeader(http.StatusBadGateway)
	case f == conflictAfter:
		w.WriteHeader(http.StatusConflict)
	case f == busyAfter:
		w.WriteHeader(http.StatusTooManyRequests)
	case f == brokenAfter:
		w.WriteHeader(http.StatusInternalServerError)
	default:
		if f == lateAnswer {
			<-time.After(late)
		}
		if refused {
			w.WriteHeader(http.StatusPaymentRequired)
			return
		}
		if p.arm.jobs {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		_ = json.NewEncoder(w).Encode(Charged{id}) // it may have been killed
	}
}

// use notes the first use of a key, which is forgotten with it.
func (p *provider) use(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at, used := p.first[key]; p.arm.firstUse && (!used || time.Since(at) >= leases(p.arm.forgets, p.form.lease)) {
		p.first[key] = time.Now()
		delete(p.kept, key)
	}
}

// keeps reports whether a request is answered with a 500 that is kept, from now on or since before.
func (p *provider) keeps(f fault, op int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.arm.keeps500 {
		return false
	}
	if p.stuck[op] {
		p.counts[string(keptFailure)]++
		return true
	}
	p.stuck[op] = f == failsBefore || f == failsAfter
	return p.stuck[op]
}

// until is when a request must have taken effect whose attempt was claimed then; zero
// where nothing bounds it.
func (p *provider) until(claimed time.Time) time.Time {
	honest := p.arm.honest(p.form.bound)
	if honest == 0 {
		return time.Time{}
	}
	return claimed.Add(leases(honest, p.form.lease))
}

// refuses are the operations that are refused whenever they are asked for.
func refuses(tool string, op int) bool {
	switch tool {
	case sagaCharge, sagaRefund:
		return false
	case sagaShip:
		return op%10 == 0
	}
	return op%50 == 0
}

// act carries an operation out, or refuses it. Not ok: it came too late, and is lost. A
// key that is known gets the answer that was kept.
func (p *provider) act(tool, key string, op int, f fault, until time.Time) (id string, refused, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !until.IsZero() && now.After(until) {
		p.counts[string(tooLate)]++
		return "", false, false
	}
	forgets := leases(p.arm.forgets, p.form.lease)
	if k, known := p.kept[key]; known && key != "" && (forgets == 0 || now.Sub(k.at) < forgets) {
		return k.ID, k.ID == "", true
	}
	if refused = f == chanceRefusal || refuses(tool, op); refused && !p.arm.keepsRefusals {
		return "", true, true
	}
	if !refused {
		id = p.book(tool, op, now, until)
	}
	at := now
	if first, ok := p.first[key]; ok {
		at = first
	}
	p.kept[key] = kept{id, at}
	return id, refused, true
}

// book notes an effect. It may become visible a little later.
func (p *provider) book(tool string, op int, now, until time.Time) string {
	p.last++
	e := effect{ID: fmt.Sprint("ch_", p.last), at: now, visible: now}
	if !until.IsZero() && (p.arm.jobs || p.rng.IntN(20) == 0) {
		e.visible = now.Add(time.Duration(p.rng.Float64() * float64(until.Sub(now))))
	}
	if p.books[tool] == nil {
		p.books[tool] = map[int][]effect{}
	}
	p.books[tool][op] = append(p.books[tool][op], e)
	return e.ID
}

// find is a look-up. It sees what is visible by now.
func (p *provider) find(w http.ResponseWriter, r *http.Request) {
	op, _ := strconv.Atoi(r.URL.Query().Get("op"))
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	failing := 3 * p.form.rate
	if now.Before(p.down) {
		failing = 50
	}
	if !p.calm && p.rng.Float64()*100 < failing {
		p.counts[string(notFound)]++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	found := []Charged{}
	for _, e := range p.books[r.PathValue("tool")][op] {
		if !now.Before(e.visible) {
			found = append(found, Charged{e.ID})
		}
	}
	_ = json.NewEncoder(w).Encode(found)
}

// cut closes the connection of a request without an answer.
func cut(w http.ResponseWriter) {
	if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// breakDown begins an outage: nothing is answered, and half of what is asked for is done.
func (p *provider) breakDown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = time.Now().Add(leases(outage, p.form.lease))
	p.counts["outage"]++
}

// calmDown ends all faults but those that are on their way.
func (p *provider) calmDown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm, p.down = true, time.Time{}
}

// effects are the books of a tool.
func (p *provider) effects(tool string) map[int][]effect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.books[tool])
}

// unanswerable are the operations whose key has a 500 for ever.
func (p *provider) unanswerable() map[int]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.stuck)
}

// applied are the faults, by kind.
func (p *provider) applied() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}
