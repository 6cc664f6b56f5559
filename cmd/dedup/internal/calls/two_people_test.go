package calls_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/dedupweb"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/exit"
)

// desk is a database, the command and the console of a team, and the provider's books. Every
// attempt after the first has an effect, and its answer is lost: the operation is parked anew.
type desk struct {
	*bundle
	t       *testing.T
	command *external.Tools // reads and decides; has no tool
	console http.Handler

	mu    sync.Mutex
	sent  map[string]int
	books map[string][]string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, bundle: setup(t, nil), sent: map[string]int{}, books: map[string][]string{}}
	var err error
	d.command, err = external.New(d.d, nil)
	require.NoError(t, err)
	access := func(r *http.Request) dedupweb.Access {
		return dedupweb.Access{Name: r.Header.Get("Who"), Keys: true, Act: true}
	}
	d.console, err = dedupweb.New(d.d, dedupweb.Options{Access: access, Tools: d.command})
	require.NoError(t, err)
	return d
}

// restart is a new process that has the tool.
func (d *desk) restart() (*external.Tools, *external.Handle[payment, receipt]) {
	d.t.Helper()
	deduper, err := dedup.New(d.pool, nil)
	require.NoError(d.t, err)
	return payTools(d.t, deduper, func(a external.Attempt) (receipt, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.sent[a.CallKey]++; d.sent[a.CallKey] > 1 {
			d.books[a.CallKey] = append(d.books[a.CallKey], fmt.Sprint("re_", d.sent[a.CallKey]))
		}
		return receipt{}, errLost
	})
}

// park parks a call that did not happen.
func (d *desk) park(key string) {
	d.t.Helper()
	tools, h := d.restart()
	_, err := h.Do(d.t.Context(), dedup.Call{Scope: "acme", Key: key}, payment{})
	require.ErrorAs(d.t, err, new(*external.ParkedError))
	require.NoError(d.t, tools.Close(d.t.Context()))
}

// advance lets a newly started process act on the due operation.
func (d *desk) advance(key string) {
	d.t.Helper()
	tools, _ := d.restart()
	_, err := tools.Advance(d.t.Context(), "acme", "pay", key)
	require.NoError(d.t, err)
	require.NoError(d.t, tools.Close(d.t.Context()))
}

func (d *desk) inBooks(key string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.books[key]
}

// person looks at the operation and at the books, and says later what follows from that.
type person struct {
	d         *desk
	name, key string
	console   bool
	// says is this person's verdict if the provider's books are empty. If a verdict that overrules
	// is refused, the person looks again.
	says string

	fence int64
	found []string
}

func (p *person) look() {
	status, err := p.d.command.Status(p.d.t.Context(), "acme", "pay", p.key)
	require.NoError(p.d.t, err)
	p.fence, p.found = status.Operation.Fence, p.d.inBooks(p.key)
}

// act reports whether the verdict is stored.
func (p *person) act() bool {
	stored := p.try()
	if !stored && p.says == "overrule" {
		p.look()
		stored = p.try()
	}
	return stored
}

func (p *person) try() bool {
	verdict, result := p.says, `{"id":"re_seen"}`
	if verdict == "overrule" {
		verdict = "never"
	}
	if len(p.found) > 0 {
		verdict, result = "happened", fmt.Sprintf(`{"id":%q}`, p.found[0])
	}
	if p.console {
		return p.post(verdict, result)
	}
	args := []string{"resolve", "acme", "pay", p.key, "--fence", fmt.Sprint(p.fence), "--reason", "in the books", "--actor", p.name}
	if p.says == "overrule" {
		args = append(args, "--overrule")
	}
	if verdict == "happened" {
		args = append(args, "--happened", result)
	} else {
		args = append(args, "--"+verdict)
	}
	got := p.d.dedup(p.d.t, args...)
	require.Contains(p.d.t, []int{exit.OK, exit.Failed}, got.code, got.errOut)
	return got.code == exit.OK
}

// post fills in the console's form.
func (p *person) post(verdict, result string) bool {
	form := url.Values{
		"scope": {"acme"}, "tool": {"pay"}, "key": {p.key}, "fence": {fmt.Sprint(p.fence)},
		"verdict": {verdict}, "result": {result}, "reason": {"in the books"},
	}
	if p.says == "overrule" {
		form.Set("overrule", "yes")
	}
	r := httptest.NewRequestWithContext(p.d.t.Context(), http.MethodPost, "/resolve", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Who", p.name)
	w := httptest.NewRecorder()
	p.d.console.ServeHTTP(w, r)
	require.Contains(p.d.t, []int{http.StatusSeeOther, http.StatusConflict}, w.Code, w.Body)
	return w.Code == http.StatusSeeOther
}

// orders are those of ada's look and verdict, bob's, and a process that is restarted.
func orders() (all []string) {
	var grow func(text string)
	grow = func(text string) {
		if len(text) == 5 {
			all = append(all, text)
			return
		}
		for letter, most := range map[string]int{"a": 2, "b": 2, "p": 1} {
			if strings.Count(text, letter) < most {
				grow(text + letter)
			}
		}
	}
	grow("")
	return all
}

var verdictsOfTwo = []string{"happened", "never", "overrule"}

// Two people at one parked operation, ada by command and bob by console, with a process of the tool
// that is restarted, in every order: it happens once at most, each verdict that is stored is in
// the audit, and nothing is left over.
func TestTwoPeople(t *testing.T) {
	t.Parallel()

	d := newDesk(t)
	slots := make(chan struct{}, 6)
	var all sync.WaitGroup
	for _, first := range verdictsOfTwo {
		for _, second := range verdictsOfTwo {
			for _, order := range orders() {
				slots <- struct{}{}
				all.Go(func() {
					defer func() { <-slots }()
					key := fmt.Sprint(first, " ", second, " ", order)
					d.park(key)
					ada := &person{d: d, name: "ada", key: key, says: first}
					bob := &person{d: d, name: "bob", key: key, says: second, console: true}
					looked, stored, sinceAct := map[*person]bool{}, 0, 0
					for _, step := range order {
						who := map[rune]*person{'a': ada, 'b': bob}[step]
						switch {
						case who == nil:
							d.advance(key)
							sinceAct = 0
						case !looked[who]:
							who.look()
							looked[who] = true
						case who.act():
							stored++
							if sinceAct++; first != "overrule" && second != "overrule" {
								require.Equal(t, 1, sinceAct, "%s: a verdict is overturned", key)
							}
						}
					}
					d.ended(key, stored)
				})
			}
		}
	}
	all.Wait()
}

// Two people look and then decide at the same moment. One verdict is stored, unless one of them
// overrules the other.
func TestTwoPeopleAtOnce(t *testing.T) {
	t.Parallel()

	d := newDesk(t)
	for _, first := range verdictsOfTwo {
		for _, second := range verdictsOfTwo {
			for n := range 4 {
				key := fmt.Sprint(first, " ", second, " ", n)
				d.park(key)
				ada := &person{d: d, name: "ada", key: key, says: first, console: n%2 == 0}
				bob := &person{d: d, name: "bob", key: key, says: second, console: n/2 == 0}
				var both sync.WaitGroup
				stored := make(chan bool, 2)
				for _, p := range []*person{ada, bob} {
					p.look()
					both.Go(func() { stored <- p.act() })
				}
				d.advance(key)
				both.Wait()
				count := 0
				for range 2 {
					if <-stored {
						count++
					}
				}
				require.Positive(t, count, key)
				if first != "overrule" && second != "overrule" {
					require.Equal(t, 1, count, key)
				}
				d.ended(key, count)
			}
		}
	}
}

// ended lets a process carry out the rest, and counts the effects.
func (d *desk) ended(key string, stored int) {
	d.t.Helper()
	d.advance(key)
	require.LessOrEqual(d.t, len(d.inBooks(key)), 1, key)
	status, err := d.command.Status(d.t.Context(), "acme", "pay", key)
	require.NoError(d.t, err)
	op := status.Operation
	require.Contains(d.t, []external.State{external.StateParked, external.StateDone}, op.State, key)
	require.Empty(d.t, op.Verdict, key)
	require.Empty(d.t, op.Twice, key)
	var lines int
	require.NoError(d.t, d.pool.QueryRow(d.t.Context(), `SELECT count(*) FROM tool_dedup_audit WHERE key = $1`, key).Scan(&lines))
	require.Equal(d.t, stored, lines, key)
}
