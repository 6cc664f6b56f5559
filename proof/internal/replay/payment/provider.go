package payment

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tooldedup/dedup/deduptest"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
)

// Mishap is what becomes of a request that is not answered.
type Mishap string

const (
	RequestLost  Mishap = "request-lost"  // nothing happens
	AnswerLost   Mishap = "answer-lost"   // it is paid
	KilledBefore Mishap = "killed-before" // the worker is killed, and nothing happens
	KilledAfter  Mishap = "killed-after"  // it is paid, and the worker is killed
	Late         Mishap = "late"          // it is paid a little later
)

// mishaps says by which fault of a plan a mishap is allowed, in the order of every report.
var mishaps = [...]struct {
	Mishap
	by plan.Kind
}{
	{RequestLost, plan.CutBeforeCommit}, {AnswerLost, plan.LostAnswer}, {KilledBefore, plan.Kill},
	{KilledAfter, plan.Kill}, {Late, plan.DelayedCommit},
}

// Mishaps returns all of them, in the order of every report.
func Mishaps() []Mishap {
	all := make([]Mishap, len(mishaps))
	for i, m := range mishaps {
		all[i] = m.Mishap
	}
	return all
}

// shares are how often the first and the second request for a call meet a mishap. No later
// one does.
var shares = [...]float64{0.7, 0.4}

// Provider pays, and keeps the book.
type Provider struct {
	URL string

	kind    Kind
	seed    uint64
	allowed []Mishap
	kill    func(worker string) bool
	book    deduptest.Provider
	server  *http.Server
	late    sync.WaitGroup

	mu      sync.Mutex
	asked   map[string]int // by ref
	met     map[string]int // by ref
	counts  map[Mishap]int
	request int
}

// Start starts a provider of a kind. The mishaps of a seed are those that the set of faults
// allows. kill ends a worker, and reports whether it lived.
func (k Kind) Start(seed uint64, set plan.Set, kill func(worker string) bool) (*Provider, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the provider: %w", err)
	}
	p := &Provider{
		URL: "http://" + listener.Addr().String(), kind: k, seed: seed, kill: kill,
		book:  deduptest.Provider{KeyKept: k.keyKept()},
		asked: map[string]int{}, met: map[string]int{}, counts: map[Mishap]int{},
	}
	for _, m := range mishaps {
		// Where nothing bounds a late effect, the book says nothing of what could be known.
		if set[m.by] && (m.Mishap != Late || k == LookUpSettles) {
			p.allowed = append(p.allowed, m.Mishap)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", p.pay)
	mux.HandleFunc("GET /", p.find)
	p.server = &http.Server{Handler: mux}
	go func() { _ = p.server.Serve(listener) }()
	return p, nil
}

// Close ends it, and waits for what is late.
func (p *Provider) Close() {
	_ = p.server.Close()
	p.late.Wait()
}

func (p *Provider) pay(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // it was cut off
		return
	}
	ref, key := string(body), r.Header.Get(keyHeader)
	sent, err := time.Parse(time.RFC3339Nano, r.Header.Get(sentHeader))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m := p.draw(ref)
	id := ""
	switch m {
	case RequestLost, KilledBefore:
	case Late:
		p.late.Add(1)
		time.AfterFunc(late, func() {
			defer p.late.Done()
			p.act(key, ref, sent)
		})
	default:
		if id = p.act(key, ref, sent); id == "" {
			m = p.lose(ref)
		}
	}
	if m == KilledBefore || m == KilledAfter {
		p.kill(r.Header.Get(workerHeader))
	}
	if m != "" {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(id) // it may have been killed
}

// act pays, unless it is too late for that.
func (p *Provider) act(key, ref string, sent time.Time) (id string) {
	if time.Since(sent) < honest {
		id, _ = p.book.Act(key, ref) // it refuses nothing
	}
	return id
}

// lose notes that a request came too late.
func (p *Provider) lose(ref string) Mishap {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met[ref]++
	p.counts[RequestLost]++
	return RequestLost
}

func (p *Provider) find(w http.ResponseWriter, r *http.Request) {
	ids, _ := p.book.Find(r.URL.Query().Get("ref"))
	_ = json.NewEncoder(w).Encode(ids)
}

// draw says what becomes of the next request for a call.
func (p *Provider) draw(ref string) (m Mishap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.asked[ref]
	p.asked[ref]++
	p.request++
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, ref, " ", n)
	rng := rand.New(rand.NewPCG(p.seed, hash.Sum64()))
	if n >= len(shares) || len(p.allowed) == 0 || rng.Float64() >= shares[n] {
		return ""
	}
	m = p.allowed[rng.IntN(len(p.allowed))]
	p.met[ref]++
	p.counts[m]++
	return m
}

// Book returns the ids of all payments for a call.
func (p *Provider) Book(ref string) []string { return p.book.Book(ref) }

// Met returns how many requests for a call met a mishap.
func (p *Provider) Met(ref string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met[ref]
}

// Requests returns how many came, and what became of those that were not answered.
func (p *Provider) Requests() (int, map[Mishap]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.request, maps.Clone(p.counts)
}
