package payment

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/tooldedup/dedup/deduptest"
)

// Mishap is a fault of a request. The request is not answered.
type Mishap string

const (
	RequestLost  Mishap = "request-lost"  // nothing happens
	AnswerLost   Mishap = "answer-lost"   // it is paid
	KilledBefore Mishap = "killed-before" // the worker is killed, and nothing happens
	KilledAfter  Mishap = "killed-after"  // it is paid, and the worker is killed
	Late         Mishap = "late"          // it is paid a little later
)

// Mishaps are all mishaps, in the order of every report.
var Mishaps = [...]Mishap{RequestLost, AnswerLost, KilledBefore, KilledAfter, Late}

// shares are the odds of a mishap for the first and the second request of a call. Later requests
// meet none.
var shares = [...]float64{0.7, 0.4}

// Provider pays: deduptest's provider behind HTTP, with mishaps that are drawn from a seed.
type Provider struct {
	URL string

	seed   uint64
	draws  []Mishap // the allowed mishaps
	kill   func(worker string)
	book   deduptest.Provider
	server *httptest.Server
	late   sync.WaitGroup

	mu     sync.Mutex
	asked  map[string]int // by ref
	met    map[string]int // mishaps by ref
	counts map[Mishap]int
}

// Start starts a provider of a kind. Its requests meet the allowed mishaps. kill ends a worker.
func (k Kind) Start(seed uint64, allowed func(Mishap) bool, kill func(worker string)) *Provider {
	p := &Provider{
		seed: seed, kill: kill, book: deduptest.Provider{KeyKept: k.keyKept()},
		asked: map[string]int{}, met: map[string]int{}, counts: map[Mishap]int{},
	}
	for _, m := range Mishaps {
		// Without a bound on late effects the book does not tell what could be known.
		if allowed(m) && (m != Late || k == LookUpSettles) {
			p.draws = append(p.draws, m)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", p.pay)
	mux.HandleFunc("GET /", p.find)
	p.server = httptest.NewServer(mux)
	p.URL = p.server.URL
	return p
}

// Close ends the provider and waits for late payments.
func (p *Provider) Close() {
	p.server.Close()
	p.late.Wait()
}

func (p *Provider) pay(w http.ResponseWriter, r *http.Request) {
	ref, key := r.URL.Query().Get("ref"), r.Header.Get(keyHeader)
	sent, err := time.Parse(time.RFC3339Nano, r.Header.Get(sentHeader))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m, id := p.draw(ref), ""
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
			m = RequestLost
		}
	}
	if m == "" {
		_ = json.NewEncoder(w).Encode(id) // the worker may have been killed
		return
	}
	p.mu.Lock()
	p.met[ref]++
	p.counts[m]++
	p.mu.Unlock()
	if m == KilledBefore || m == KilledAfter {
		p.kill(r.Header.Get(workerHeader))
	}
	panic(http.ErrAbortHandler)
}

// act pays, unless the request is too late.
func (p *Provider) act(key, ref string, sent time.Time) (id string) {
	if time.Since(sent) < honest {
		id, _ = p.book.Act(key, ref) // the book refuses nothing
	}
	return id
}

func (p *Provider) find(w http.ResponseWriter, r *http.Request) {
	ids, _ := p.book.Find(r.URL.Query().Get("ref"))
	_ = json.NewEncoder(w).Encode(ids)
}

// draw returns the mishap of the next request for a call, "" for none.
func (p *Provider) draw(ref string) Mishap {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.asked[ref]
	p.asked[ref]++
	hash := fnv.New64a()
	_, _ = fmt.Fprint(hash, ref, " ", n)
	rng := rand.New(rand.NewPCG(p.seed, hash.Sum64()))
	if n >= len(shares) || len(p.draws) == 0 || rng.Float64() >= shares[n] {
		return ""
	}
	return p.draws[rng.IntN(len(p.draws))]
}

// Book returns the ids of all payments for a call.
func (p *Provider) Book(ref string) []string { return p.book.Book(ref) }

// Met returns the number of mishaps of a call's requests.
func (p *Provider) Met(ref string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met[ref]
}

// Requests returns the number of requests, and their mishaps.
func (p *Provider) Requests() (sum int, met map[Mishap]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.asked {
		sum += n
	}
	return sum, maps.Clone(p.counts)
}
