package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
	"github.com/tooldedup/dedup/internal/process"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// limit ends a test that hangs, long before the test binary does.
const limit = time.Minute

// ways are the ways to make a call. Batch takes many.
var ways = []string{"do", "dotx", "statement", "batch"}

// world is a database of a test's own, and a process of each version that works with it.
type world struct {
	programs, orders map[string]string
	url              string
	conn             *pgx.Conn
	sides            map[string]*side
}

// newWorld has no migrations yet.
func newWorld(t *testing.T, programs, orders map[string]string) *world {
	t.Helper()
	w := &world{programs: programs, orders: orders, url: pgtest.NewEmpty(t).URL, sides: map[string]*side{}}
	w.conn = w.connect(t)
	w.exec(t, `CREATE TABLE gates (name text PRIMARY KEY)`)
	w.exec(t, `INSERT INTO gates VALUES ('open'), ('gate')`)
	w.exec(t, `CREATE TABLE effects (
		id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
		key  text NOT NULL,
		side text NOT NULL CHECK (side <> ''),
		gate text NOT NULL REFERENCES gates
	)`)
	for name := range programs {
		w.start(t, name)
	}
	return w
}

// migrated has the migrations of the old version and then those of the new one.
func migrated(t *testing.T, programs, orders map[string]string) *world {
	t.Helper()
	w := newWorld(t, programs, orders)
	w.ask(t, "old", command{Op: "migrate"})
	w.ask(t, "new", command{Op: "migrate"})
	return w
}

func (w *world) connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), w.url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := w.conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// effects is how often a key has taken effect.
func (w *world) effects(t *testing.T, key string) (n int) {
	t.Helper()
	require.NoError(t, w.conn.QueryRow(t.Context(), `SELECT count(*) FROM effects WHERE key = $1`, key).Scan(&n))
	return n
}

// closeGate keeps effects with a gate waiting until open is called.
func (w *world) closeGate(t *testing.T) (open func()) {
	t.Helper()
	tx, err := w.connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM gates WHERE name = 'gate' FOR UPDATE`)
	require.NoError(t, err)
	return func() { require.NoError(t, tx.Rollback(t.Context())) }
}

// atGate waits until a backend waits for a lock.
func (w *world) atGate(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		var waits bool
		err := w.conn.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits)
		return err == nil && waits
	}, limit, 2*time.Millisecond)
}

// The wire form of program caller.
type (
	command struct {
		ID                   int64
		Op                   string
		Keys                 []string
		Args                 json.RawMessage
		Refuse, Gate, NoWait bool
		Version              int64
	}
	answer struct {
		ID      int64
		Results []result
		Err     string
		Swept   *swept
		Texts   []string
		Freed   bool
	}
	result struct {
		Effect   effect
		Replayed bool
		Err      string
	}
	effect struct {
		ID   int64
		Side string
	}
	swept struct {
		Expired, Forgotten int64
		Skipped            bool
	}
)

// side is a process of one version.
type side struct {
	*process.Process

	mu      sync.Mutex
	last    int64
	pending map[int64]chan answer
}

func (w *world) start(t *testing.T, name string) {
	t.Helper()
	s := &side{pending: map[int64]chan answer{}}
	var err error
	s.Process, err = process.Start(process.Command{Program: w.programs[name], Args: []string{w.url, w.orders[name], name}}, nil, func(a answer) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending[a.ID] <- a
		delete(s.pending, a.ID)
	})
	require.NoError(t, err)
	t.Cleanup(s.Kill)
	w.sides[name] = s
}

var errEnded = errors.New("the process has ended")

// begin sends a command. The function returned waits for its answer.
func (s *side) begin(c command) (wait func() (answer, error)) {
	done := make(chan answer, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	c.ID = s.last
	s.pending[c.ID] = done
	err := s.Send(c)
	return func() (answer, error) {
		if err != nil {
			return answer{}, err
		}
		select {
		case a := <-done:
			return a, nil
		case <-s.Done():
			return answer{}, errEnded
		case <-time.After(limit):
			return answer{}, errors.New("an answer did not come")
		}
	}
}

// begin sends a command to one side.
func (w *world) begin(t *testing.T, side string, c command) (wait func() answer) {
	t.Helper()
	answered := w.sides[side].begin(c)
	return func() answer {
		t.Helper()
		a, err := answered()
		require.NoError(t, err)
		return a
	}
}

// ask sends a command that must not fail.
func (w *world) ask(t *testing.T, side string, c command) answer {
	t.Helper()
	a := w.begin(t, side, c)()
	require.Empty(t, a.Err)
	return a
}

// call makes a call with one key.
func (w *world) call(t *testing.T, side string, c command) result {
	t.Helper()
	a := w.ask(t, side, c)
	require.Len(t, a.Results, 1)
	return a.Results[0]
}

func other(side string) string {
	if side == "old" {
		return "new"
	}
	return "old"
}
