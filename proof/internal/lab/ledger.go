package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Ledger keeps the answers of each key and compares them with the database. It is safe for
// concurrent use.
type Ledger struct {
	mu      sync.Mutex
	answers map[string]int64 // the first answer
	tally   Tally
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{answers: map[string]int64{}} }

// Answered notes an answer.
func (l *Ledger) Answered(key string, run int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first, ok := l.answers[key]
	switch {
	case !ok:
		l.answers[key] = run
	case first != run:
		l.tally.Differing++
	}
}

// Unanswered notes a key without an answer at the end.
func (l *Ledger) Unanswered(string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tally.Unanswered++
}

// Settle compares the answers with the effects, removes both, and returns the counts since
// NewLedger. The effects are in the named tables, default effects. All effects of a key are in one
// table.
func (l *Ledger) Settle(ctx context.Context, pool *pgxpool.Pool, tables ...string) (Tally, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(tables) == 0 {
		tables = []string{"effects"}
	}
	seen := 0
	for _, table := range tables {
		rows, err := pool.Query(ctx, `SELECT key, count(*), min(run), max(run) FROM `+table+` GROUP BY key`)
		if err != nil {
			return l.tally, fmt.Errorf("reading the effects: %w", err)
		}
		var key string
		var count, first, last int64
		_, err = pgx.ForEachRow(rows, []any{&key, &count, &first, &last}, func() error {
			seen++
			l.tally.Doubled += int(count - 1)
			if answer, ok := l.answers[key]; ok && (answer < first || answer > last || count == 1 && answer != first) {
				l.tally.Differing++
			}
			delete(l.answers, key)
			return nil
		})
		if err != nil {
			return l.tally, fmt.Errorf("reading the effects: %w", err)
		}
	}
	if seen == 0 {
		return l.tally, errors.New("there are no effects at all: nothing was tested")
	}
	l.tally.Identities += seen + len(l.answers)
	l.tally.Lost += len(l.answers) // answered, and not there
	clear(l.answers)
	_, err := pool.Exec(ctx, `TRUNCATE `+strings.Join(tables, ", "))
	return l.tally, err
}
