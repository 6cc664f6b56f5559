package contract_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// The statements of docs/why-not-sql.md.
const (
	textbookTable  = `CREATE TABLE calls (key text PRIMARY KEY, result jsonb, at timestamptz NOT NULL DEFAULT now())`
	textbookClaim  = `INSERT INTO calls (key) VALUES ($1) ON CONFLICT DO NOTHING`
	textbookLook   = `SELECT result FROM calls WHERE key = $1`
	textbookRecord = `UPDATE calls SET result = $2 WHERE key = $1`
	textbookSweep  = `DELETE FROM calls WHERE at < now() - interval '1 day'`
)

// pageAnswer is the result of a trap's effect. JSON leaves Extra out.
type pageAnswer struct {
	Run   int
	Text  string
	Extra string `json:"-"`
}

func textbook(ctx context.Context, pool *pgxpool.Pool, key string, effect dedup.Effect[pageAnswer]) (answer pageAnswer, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		claimed, err := tx.Exec(ctx, textbookClaim, key)
		if err != nil {
			return err
		}
		if claimed.RowsAffected() == 0 {
			return tx.QueryRow(ctx, textbookLook, key).Scan(&answer)
		}
		if answer, err = effect(ctx, tx); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, textbookRecord, key, answer)
		return err
	})
	return answer, err
}

// textbookRival makes the calls of a trap, by the textbook or by the library.
type textbookRival struct {
	*fixture
	proxy   *faultproxy.Proxy
	library bool

	runs int
	text string // of the result
	// then runs in the effect, before the effect writes its row.
	then func(ctx context.Context, tx pgx.Tx, run int) error
	// outside: the effect writes through its connection.
	outside bool
}

// effect leaves one row for each run that is committed.
func (r *textbookRival) effect(ctx context.Context, tx pgx.Tx) (pageAnswer, error) {
	r.runs++
	answer := pageAnswer{Run: r.runs, Text: r.text, Extra: "extra"}
	if r.then != nil {
		if err := r.then(ctx, tx, r.runs); err != nil {
			return pageAnswer{}, err
		}
	}
	const write = `INSERT INTO effects (ref) VALUES ('k')`
	if r.outside {
		_, err := tx.Conn().Exec(ctx, write)
		return answer, err
	}
	_, err := tx.Exec(ctx, write)
	return answer, err
}

// call makes the call and returns its answer in the page's words.
func (r *textbookRival) call(ctx context.Context, args string) string {
	return r.tell(r.once(ctx, r.pool, r.d, args))
}

func (r *textbookRival) once(ctx context.Context, pool *pgxpool.Pool, d *dedup.Deduper, args string) (pageAnswer, error) {
	if !r.library {
		return textbook(ctx, pool, "k", r.effect)
	}
	result, err := dedup.Do(ctx, d, dedup.Call{Scope: "acme", Tool: "create_ticket", Key: "k", Args: args}, r.effect)
	return result.Value, err
}

func (r *textbookRival) tell(answer pageAnswer, err error) string {
	for known, words := range map[error]string{
		dedup.ErrRefused: "refused", dedup.ErrExpired: "expired", dedup.ErrKeyReused: "key reused", dedup.ErrBroken: "broken",
	} {
		if errors.Is(err, known) {
			return words
		}
	}
	if err != nil {
		return "error"
	}
	return strings.TrimSpace(fmt.Sprintf("answer %d %s", answer.Run, answer.Extra))
}

// twin makes the call again, on pool, while the first call runs its effect. It returns both
// answers, and the connections that are in use while the twin waits.
func (r *textbookRival) twin(t *testing.T, ctx context.Context, d *dedup.Deduper, pool *pgxpool.Pool) (answers []string, connections int32) {
	t.Helper()
	held := newGate()
	r.then = held.then
	first, second := make(chan string, 1), make(chan string, 1)
	go func() { first <- r.call(ctx, "") }()
	receive(t, ctx, held.entered)
	go func() { second <- r.tell(r.once(ctx, pool, d, "")) }()
	if r.library {
		require.NoError(t, r.events.until(ctx, func(all []any) bool { return len(ofType[dedup.WaitStartData](all)) > 0 }))
	} else {
		r.untilWaitingInside(t, 1)
	}
	connections = r.pool.Stat().AcquiredConns()
	held.release()
	return []string{receive(t, ctx, first), receive(t, ctx, second)}, connections
}

// trap is a row of the page: a case, and the rows and answers of each side.
type trap struct {
	name, textbook, library string
	// run returns the answers, in order.
	run func(t *testing.T, ctx context.Context, r *textbookRival) []string
}

var errDeclined = errors.New("the card is declined")

func traps() []trap {
	twice := func(_ *testing.T, ctx context.Context, r *textbookRival) []string {
		return []string{r.call(ctx, ""), r.call(ctx, "")}
	}
	return []trap{
		{"The answer to COMMIT is lost", "1 effect; error", "1 effect; answer 1", func(_ *testing.T, ctx context.Context, r *textbookRival) []string {
			r.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
			return []string{r.call(ctx, "")}
		}},
		{"The caller's context ends during COMMIT", "1 effect; error", "1 effect; answer 1", func(t *testing.T, ctx context.Context, r *textbookRival) []string {
			held := r.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyDelayed, Where: faultproxy.AtCommit})
			calling, cancel := context.WithCancel(ctx)
			answer := make(chan string, 1)
			go func() { answer <- r.call(calling, "") }()
			require.NoError(t, held.Wait(ctx))
			cancel()
			if r.library { // its COMMIT goes on
				held.Release()
			}
			return []string{receive(t, ctx, answer)}
		}},
		{"A twin waits for the call", "1 effect; 2 connections", "1 effect; 1 connection", func(t *testing.T, ctx context.Context, r *textbookRival) []string {
			_, connections := r.twin(t, ctx, r.d, r.pool)
			return []string{fmt.Sprintf("%d connection%s", connections, map[bool]string{true: "s"}[connections > 1])}
		}},
		{"A twin waits at REPEATABLE READ", "1 effect; answer 1 extra, error", "1 effect; answer 1, answer 1", func(t *testing.T, ctx context.Context, r *textbookRival) []string {
			stricter := func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "repeatable read"
			}
			pool := r.db.Pool(t, stricter)
			answers, _ := r.twin(t, ctx, newDeduper(t, pool, &r.opts), pool)
			return answers
		}},
		{"The tool refuses, and the call comes again", "1 effect; error, answer 2 extra", "0 effects; refused, refused", func(t *testing.T, ctx context.Context, r *textbookRival) []string {
			r.then = func(_ context.Context, _ pgx.Tx, run int) error {
				if run == 1 {
					return dedup.Final(errDeclined)
				}
				return nil
			}
			return twice(t, ctx, r)
		}},
		{"A deadlock ends the effect", "0 effects; error", "1 effect; answer 2", func(_ *testing.T, ctx context.Context, r *textbookRival) []string {
			r.then = func(ctx context.Context, tx pgx.Tx, run int) error {
				if run > 1 {
					return nil
				}
				_, err := tx.Exec(ctx, `SELECT fail('40P01')`)
				return err
			}
			return []string{r.call(ctx, "")}
		}},
		{"The key comes with other arguments", "1 effect; answer 1 extra, answer 1", "1 effect; answer 1, key reused", func(_ *testing.T, ctx context.Context, r *textbookRival) []string {
			return []string{r.call(ctx, "printer"), r.call(ctx, "door")}
		}},
		{"The effect rolls back and writes on", "2 effects; answer 1 extra, answer 2 extra", "1 effect; broken, broken", func(t *testing.T, ctx context.Context, r *textbookRival) []string {
			r.outside = true
			r.then = func(ctx context.Context, tx pgx.Tx, _ int) error {
				_, err := tx.Conn().Exec(ctx, `ROLLBACK`)
				return err
			}
			return twice(t, ctx, r)
		}},
		{"A retry comes after the clean-up", "2 effects; answer 1 extra, answer 2 extra", "1 effect; answer 1, expired", func(t *testing.T, ctx context.Context, r *textbookRival) []string {
			first := r.call(ctx, "")
			if r.library {
				r.exec(t, `UPDATE tool_dedup SET created_at = created_at - '25 h'::interval, expires_at = expires_at - '25 h'::interval, forget_at = forget_at - '25 h'::interval`)
				_, err := r.d.Sweep(ctx, nil)
				require.NoError(t, err)
			} else {
				r.exec(t, `UPDATE calls SET at = at - '25 h'::interval`)
				r.exec(t, textbookSweep)
			}
			return []string{first, r.call(ctx, "")}
		}},
		{"The result has a NUL byte", "0 effects; error", "1 effect; answer 1", func(_ *testing.T, ctx context.Context, r *textbookRival) []string {
			r.text = "a\x00b"
			return []string{r.call(ctx, "")}
		}},
		{"JSON leaves a field of the result out", "1 effect; answer 1 extra, answer 1", "1 effect; answer 1, answer 1", twice},
	}
}

// TestTextbook runs each trap of docs/why-not-sql.md with the page's twenty lines of SQL and with
// the library. The page has every statement, and a row for each trap with the results of this test.
func TestTextbook(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/why-not-sql.md")
	require.NoError(t, err)
	for _, sql := range []string{textbookTable, textbookClaim, textbookLook, textbookRecord, textbookSweep} {
		require.Contains(t, string(text), sql+";")
	}
	for _, c := range traps() {
		t.Run(strings.ReplaceAll(c.name, " ", ""), func(t *testing.T) {
			t.Parallel()
			require.Contains(t, string(text), fmt.Sprintf("\n| %s | %s | %s |", c.name, c.textbook, c.library))
			for _, library := range []bool{false, true} {
				t.Run(map[bool]string{false: "Textbook", true: "Library"}[library], func(t *testing.T) {
					t.Parallel()
					ctx, f, proxy := proxied(t, plain, &dedup.Options{Retry: quickRetry, CommitTimeout: time.Minute})
					r := &textbookRival{fixture: f, proxy: proxy, library: library}
					f.exec(t, textbookTable)
					answers := strings.Join(c.run(t, ctx, r), ", ")
					n := f.effects(t, "k")
					observed := fmt.Sprintf("%d effect%s; %s", n, map[bool]string{true: "s"}[n != 1], answers)
					require.Equal(t, map[bool]string{false: c.textbook, true: c.library}[library], observed)
				})
			}
		})
	}
}
