package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/pgtest"
)

// FuzzOperations has three processes act on one operation in the order that the bytes give, with
// each kind of provider. The provider keeps a book of its effects.
func FuzzOperations(f *testing.F) {
	for kind := range fuzzKinds {
		for _, script := range []string{
			"\x00\x00",                 // a call that succeeds
			"\x07\x03\x01\x00\x04\x01", // a late effect beside later acts
			"\x00\x01\x08\x09\x00\x0a\x04\x00\x0b\x05",                 // lost, taken over, NotDone, killed
			"\x03\x07\x00\x09\x08\x05\x0c\x0a\x0b\x0d\x00",             // a zombie beside others
			"\x06\x02\x03\x08\x08\x0e\x09\x0a\x05\x0c\x10\x0f\x00\x11", // late effects, a refusal, verdicts
		} {
			f.Add(append([]byte{byte(kind)}, script...))
		}
	}
	pool := pgtest.New(f).Pool(f, func(c *pgxpool.Config) { c.MaxConns = 20 })
	_, err := pool.Exec(f.Context(), ledgerTable)
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, script []byte) {
		t.Parallel()
		if len(script) < 2 || len(script) > 40 {
			t.Skip("too short or too long to be of interest")
		}
		newMarket(t, pool, int(script[0])%len(fuzzKinds), script[1:]).run()
	})
}

// fuzzTimeout is the time after which an attempt that ignores its context, or a late look-up, is
// abandoned. Leases end only if the fuzzer moves the time.
const fuzzTimeout = 100 * time.Millisecond

// fuzzKinds are the kinds of providers. Their Settles is right.
var fuzzKinds = []struct {
	name        string
	takes, find bool
	settles     time.Duration
}{
	{"key", true, false, 0},
	{"key+find", true, true, 0},
	{"find+settle", false, true, lease},
	{"find", false, true, 0},
	{"neither", false, false, 0},
}

var orders atomic.Int32

// market is a provider, its book, and the processes that use it for one operation.
type market struct {
	t         *testing.T
	pool      *pgxpool.Pool
	kind      int
	order     int
	processes [3]*trader
	calls     sync.WaitGroup

	mu       sync.Mutex
	script   []byte
	book     []out
	byKey    map[string]out
	declined bool
	never    bool // an operator gave the verdict Never
	late     []request
	zombies  []chan struct{}
	ahead    atomic.Int64 // how far everyone's clock is ahead
}

// request is a request that is still on its way after its attempt has ended.
type request struct {
	key   string
	ended time.Time
}

// trader is a process.
type trader struct {
	*fixture
	m       *market
	handle  *external.Handle[in, out]
	dead    atomic.Bool
	zombies atomic.Int32
}

func newMarket(t *testing.T, pool *pgxpool.Pool, kind int, script []byte) *market {
	m := &market{t: t, pool: pool, kind: kind, order: int(orders.Add(1)), script: script, byKey: map[string]out{}}
	for i := range m.processes {
		m.processes[i] = m.start()
	}
	return m
}

func (m *market) start() *trader {
	p := &trader{fixture: process(m.t, m.pool), m: m}
	external.SetClock(p.tools, m.now)
	tool := ledger(external.Tool[in, out]{Timeout: fuzzTimeout, Settles: fuzzKinds[m.kind].settles, Perform: p.perform})
	if fuzzKinds[m.kind].takes {
		tool.KeyKept = external.Forever
	}
	if fuzzKinds[m.kind].find {
		tool.Find = func(context.Context, external.Attempt, in) ([]out, error) { return m.found(), nil }
	}
	p.handle = add(p.fixture, tool)
	return p
}

// now is the clock of the processes and the provider.
func (m *market) now() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) }

// untilDue moves everyone's time until the operation is due.
func (m *market) untilDue(op external.Operation) {
	until := max(op.Due.Sub(op.Now), 0)
	m.ahead.Add(int64(until))
	require.NoError(m.t, elapse(m.t.Context(), m.pool, "tool_effect", m.call().Key, until))
}

// next returns the next byte, zero after the last one.
func (m *market) next() byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.script) == 0 {
		return 0
	}
	b := m.script[0]
	m.script = m.script[1:]
	return b
}

func (m *market) found() []out {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]out{}, m.book...)
}

// act carries out an order. A provider that takes keys acts once per key, and keeps its refusals.
func (m *market) act(key string) (out, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.actLocked(key)
}

func (m *market) actLocked(key string) (out, error) {
	if fuzzKinds[m.kind].takes {
		if o, ok := m.byKey[key]; ok {
			return o, nil
		}
		if m.declined {
			return out{}, dedup.Final(errors.New("declined"))
		}
	}
	o := out{fmt.Sprint("ch_", m.order, "_", len(m.book)+1)}
	m.book = append(m.book, o)
	m.byKey[key] = o
	return o, nil
}

func (p *trader) perform(ctx context.Context, a external.Attempt, _ in) (out, error) {
	m := p.m
	if p.dead.Load() {
		return out{}, errLost
	}
	switch m.next() % 8 {
	case 1: // takes effect, the reply is lost
		_, _ = m.act(a.Key)
		return out{}, errLost
	case 2: // lost without effect
		return out{}, errLost
	case 3: // may take effect later
		m.mu.Lock()
		defer m.mu.Unlock()
		m.late = append(m.late, request{a.Key, m.now()})
		return out{}, errLost
	case 4:
		return out{}, external.NotDone(errors.New("429"))
	case 5:
		return m.decline(a.Key)
	case 6:
		panic("a bug")
	case 7: // ignores its context
		hold := make(chan struct{})
		m.mu.Lock()
		m.zombies = append(m.zombies, hold)
		m.mu.Unlock()
		p.zombies.Add(1)
		<-hold
		if p.dead.Load() {
			return out{}, context.Cause(ctx)
		}
	}
	return m.act(a.Key)
}

// decline refuses, unless the key has had an effect.
func (m *market) decline(key string) (out, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o, ok := m.byKey[key]; ok && fuzzKinds[m.kind].takes {
		return o, nil
	}
	m.declined = true
	return out{}, dedup.Final(errors.New("declined"))
}

// land delivers the oldest request that is on its way. It drops a request that is later than
// Settles allows.
func (m *market) land() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.late) == 0 {
		return
	}
	r := m.late[0]
	m.late = m.late[1:]
	if settles := fuzzKinds[m.kind].settles; settles == 0 || m.now().Sub(r.ended) < settles/2 {
		_, _ = m.actLocked(r.key)
	}
}

// wake continues the oldest zombie.
func (m *market) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.zombies) > 0 {
		close(m.zombies[0])
		m.zombies = m.zombies[1:]
	}
}

// quiet reports whether no sent request can still take effect.
func (m *market) quiet() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.late) == 0 && len(m.zombies) == 0
}

func (m *market) call() dedup.Call {
	return dedup.Call{Scope: "acme", Key: fmt.Sprint(m.order), MaxWait: fuzzTimeout / 4}
}

func (m *market) lookup() external.Operation { return m.processes[0].lookup(m.call().Key) }

func (m *market) run() {
	for {
		m.mu.Lock()
		ended := len(m.script) == 0
		m.mu.Unlock()
		if ended {
			break
		}
		b := m.next()
		m.step(m.processes[int(b/8)%len(m.processes)], b)
	}
	for !m.quiet() {
		m.wake()
		m.land()
	}
	m.calls.Wait()
	m.end()
	m.check()
}

// step is one act of a process or of the provider.
func (m *market) step(p *trader, b byte) {
	ctx := m.t.Context()
	switch b % 8 {
	case 0:
		m.calls.Go(func() { _, _ = p.handle.Do(ctx, m.call(), in{m.order}) })
	case 1:
		m.advance(p)
	case 2:
		m.wake()
	case 3:
		m.kill(int(b/8) % len(m.processes))
	case 4:
		m.land()
	case 5:
		fails := errors.New("no")
		_ = pgx.BeginFunc(ctx, m.pool, func(tx pgx.Tx) error {
			if _, err := p.handle.Accept(ctx, tx, m.call(), in{m.order}); err != nil || b >= 128 {
				return errors.Join(err, fails)
			}
			return nil
		})
	case 6:
		m.resolve(p, b)
	case 7:
		_, _ = p.handle.Do(ctx, m.call(), in{m.order})
	}
}

// advance calls Advance if the operation is due.
func (m *market) advance(p *trader) {
	if op := m.lookup(); !op.Due.IsZero() && op.Due.Sub(op.Now) < 3*lease {
		m.untilDue(op)
	}
	p.advance(m.call().Key)
}

// kill ends a process: its waiting requests never reach the provider. A process with a zombie lives
// on, because only it knows the zombie's outcome.
func (m *market) kill(i int) {
	p := m.processes[i]
	if p.zombies.Load() > 0 {
		return
	}
	p.dead.Store(true)
	ctx, cancel := context.WithCancel(m.t.Context())
	cancel()
	_ = p.tools.Close(ctx)
	m.processes[i] = m.start()
}

// resolve gives the verdict that the book supports, if no request is on its way.
func (m *market) resolve(p *trader, b byte) {
	op := m.lookup()
	book := m.found()
	if op.State != external.StateParked || !m.quiet() {
		return
	}
	v := external.Never("not in the book")
	m.never = m.never || len(book) == 0 && b < 128
	switch {
	case len(book) > 0:
		v = external.Happened(book[0], "in the book")
	case b >= 128:
		v = external.Refuse("not in the book")
	}
	if err := p.tools.Resolve(m.t.Context(), op, v); !errors.Is(err, dedup.ErrInFlight) {
		require.NoError(m.t, err)
	}
}

// end advances the operation until nothing is due but look-ups of a parked operation.
func (m *market) end() {
	for range 100 {
		op := m.lookup()
		if op.Due.IsZero() || op.State == external.StateParked && op.Verdict == "" && op.Due.Sub(op.Now) > 3*lease {
			return
		}
		m.untilDue(op)
		m.advance(m.processes[0])
	}
	require.Fail(m.t, "it goes on for ever", "%+v", m.lookup())
}

// check compares the book with the stored operation and record.
func (m *market) check() {
	t, ctx := m.t, m.t.Context()
	for _, p := range m.processes {
		require.NoError(t, p.tools.Close(ctx))
	}
	op, kind, book := m.lookup(), fuzzKinds[m.kind], m.found()
	require.True(t, len(book) <= 1 || op.Twice != "", "%s: twice, and not reported: %v %+v", kind.name, book, op)
	require.True(t, len(book) <= 1 || !kind.takes, "%s: the provider takes keys: %v", kind.name, book)
	if !kind.takes && kind.settles == 0 && !m.never {
		require.LessOrEqual(t, len(book), 1, "%s: what is not known was repeated: %+v", kind.name, op)
	}
	switch op.State {
	case external.StateNone:
		require.Empty(t, book)
	case external.StatePending, external.StateRunning:
		require.Fail(t, "it has no end", "%s: %+v", kind.name, op)
	case external.StateParked:
		require.True(t, !kind.takes && kind.settles == 0, "%s: it could have been found out: %+v", kind.name, op)
	}
	status, err := m.processes[0].d.Lookup(ctx, "acme", "charge", m.call().Key)
	require.NoError(t, err)
	want := []string{}
	switch {
	case op.State != external.StateDone:
	case status.State == dedup.StateDone:
		var answer out
		require.NoError(t, json.Unmarshal(status.Result, &answer))
		require.Contains(t, book, answer, "%s: an answer that the provider does not know: %+v", kind.name, op)
		require.Equal(t, answer.ID, op.Ref)
		want = append(want, "finish "+answer.ID)
	default:
		require.Equal(t, dedup.StateRefused, status.State)
		require.True(t, len(book) == 0 || op.Twice != "", "%s: refused, and it happened: %v %+v", kind.name, book, op)
		want = append(want, "refused "+status.Refusal.Message)
	}
	require.Equal(t, want, m.processes[0].ledger(m.order), "%s: %+v", kind.name, op)
}
