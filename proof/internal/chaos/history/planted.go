package history

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// bug is an implementation that looks right and is wrong, with a defect that real implementations
// have had.
type bug struct {
	name string
	// make makes calls with the bug.
	make func(context.Context, calling) ([]lab.Told, error)
	// sign counts the consequences that only this bug has.
	sign func(verdict) int
}

// calling is a client with the way it calls.
type calling struct {
	storm *storm
	by    *lab.Client
	jobs  []lab.Job
	way   lab.Way // the correct way
}

func (c calling) right(ctx context.Context) ([]lab.Told, error) { return c.way.Make(ctx, c.by, c.jobs) }

// plant puts the bug into all ways to call.
func (b *bug) plant(s *storm) {
	for i, right := range s.ways {
		s.ways[i].Make = func(ctx context.Context, by *lab.Client, jobs []lab.Job) ([]lab.Told, error) {
			return b.make(ctx, calling{s, by, jobs, right})
		}
	}
}

const (
	lookUp = `SELECT fingerprint, result, created_at FROM tool_dedup WHERE scope = 'chaos' AND tool = 'effect' AND key = $1`
	write  = `INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
VALUES ('chaos', 'effect', $1, $2, 'done', $3, now(), now() + interval '1 day', now() + interval '2 days')`
)

// ending ends the transaction of a run of the effect. Its arguments are those of write.
type ending func(ctx context.Context, tx pgx.Tx, mine lab.Told, args ...any) (lab.Told, error)

// textbook looks up, runs, writes and commits. The caller says how it writes and ends.
func textbook(end ending) func(context.Context, calling) ([]lab.Told, error) {
	return func(ctx context.Context, c calling) ([]lab.Told, error) { return c.textbook(ctx, true, end) }
}

func (c calling) textbook(ctx context.Context, look bool, end ending) (answers []lab.Told, err error) {
	job := c.jobs[0]
	print, err := dedup.FingerprintOf(job.Call.Args)
	if err != nil {
		return nil, err
	}
	var a lab.Told
	err = c.by.InTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if look {
			var there bool
			if a, there, err = found(tx.QueryRow(ctx, lookUp, job.Call.Key), print[:]); there || err != nil {
				return cmp.Or(err, errEnded)
			}
		}
		if err := tx.QueryRow(ctx, job.SQL, job.Args...).Scan(&a.Run); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&a.Created); err != nil {
			return err
		}
		a, err = end(ctx, tx, a, job.Call.Key, print[:], fmt.Sprint(a.Run))
		return cmp.Or(err, errEnded)
	})
	if !errors.Is(err, errEnded) {
		return nil, err
	}
	return []lab.Told{a}, nil
}

// errEnded keeps [lab.Client.InTx] from committing a transaction that has ended.
var errEnded = errors.New("the transaction has ended")

// found reads a record.
func found(row pgx.Row, print []byte) (a lab.Told, found bool, err error) {
	var first []byte
	var result string
	switch err := row.Scan(&first, &result, &a.Created); {
	case errors.Is(err, pgx.ErrNoRows):
		return a, false, nil
	case err != nil:
		return a, false, err
	case string(first) != string(print):
		return a, true, dedup.ErrKeyReused
	}
	a.Replayed = true
	err = json.Unmarshal([]byte(result), &a.Run)
	return a, true, err
}

// loserSnapshot inserts and looks up in one statement. After waiting, a loser's snapshot has
// neither its own row nor the winner's, and the loser takes that for a first call.
func loserSnapshot(ctx context.Context, tx pgx.Tx, mine lab.Told, args ...any) (lab.Told, error) {
	winner, found, err := found(tx.QueryRow(ctx, `WITH mine AS (`+write+` ON CONFLICT DO NOTHING RETURNING fingerprint, result, created_at)
SELECT fingerprint, result, created_at FROM mine UNION ALL `+lookUp, args...), args[1].([]byte))
	switch {
	case err != nil:
		return mine, err
	case found && winner.Run != mine.Run:
		return winner, tx.Rollback(ctx)
	}
	return mine, tx.Commit(ctx)
}

// doNothingThenCommit sends COMMIT together with a record that ON CONFLICT DO NOTHING skips. A
// loser's effect is committed.
func doNothingThenCommit(ctx context.Context, tx pgx.Tx, mine lab.Told, args ...any) (lab.Told, error) {
	b := &pgx.Batch{}
	b.Queue(write+` ON CONFLICT DO NOTHING`, args...)
	b.Queue(`COMMIT`)
	return mine, tx.SendBatch(ctx, b).Close()
}

// commits writes the record, and commits.
func commits(insert string) ending {
	return func(ctx context.Context, tx pgx.Tx, mine lab.Told, args ...any) (lab.Told, error) {
		if _, err := tx.Exec(ctx, insert, args...); err != nil {
			return mine, err
		}
		return mine, tx.Commit(ctx)
	}
}

// takesLostForRolledBack takes a lost connection for a rollback and runs again without a look.
func takesLostForRolledBack(ctx context.Context, c calling) ([]lab.Told, error) {
	answers, err := c.textbook(ctx, true, commits(write))
	if errors.Is(err, pgconn.ErrConnClosed) {
		return c.textbook(ctx, false, commits(write+` ON CONFLICT (scope, tool, key) DO UPDATE SET result = EXCLUDED.result`))
	}
	return answers, err
}

// sweepsTooEarly also sweeps by a clock that is two months ahead.
func sweepsTooEarly(ctx context.Context, c calling) ([]lab.Told, error) {
	answers, err := c.right(ctx)
	if len(answers) > 0 && answers[0].Run%7 == 0 {
		_, _ = c.by.Pool.Exec(ctx, `DELETE FROM tool_dedup WHERE forget_at < $1`, time.Now().Add(60*24*time.Hour))
	}
	return answers, err
}

// answersFromCache returns the first answer of a key for ever, with any arguments.
func answersFromCache(ctx context.Context, c calling) ([]lab.Told, error) {
	if first, there := c.storm.cache.Load(c.jobs[0].Call.Key); there {
		return []lab.Told{first.(lab.Told)}, nil
	}
	answers, err := c.right(ctx)
	for _, a := range answers {
		c.storm.cache.Store(c.jobs[a.Job].Call.Key, lab.Told{Run: a.Run, Created: a.Created, Replayed: true})
	}
	return answers, err
}

// answersRolledBack returns the answers of a DoTx whose transaction was rolled back.
func answersRolledBack(ctx context.Context, c calling) ([]lab.Told, error) {
	var promised []lab.Told
	by, commit := *c.by, c.by.BeforeCommit
	by.BeforeCommit = func(answers []lab.Told) error {
		promised = answers
		if commit == nil {
			return nil
		}
		return commit(answers)
	}
	answers, err := c.way.Make(ctx, &by, c.jobs)
	if promised != nil {
		return promised, nil
	}
	return answers, err
}

// runsAgain runs the effect of a call once more.
func runsAgain(ctx context.Context, c calling) ([]lab.Told, error) {
	answers, err := c.right(ctx)
	_, _ = c.storm.db.Pool.Exec(ctx, c.jobs[0].SQL, c.jobs[0].Args...)
	return answers, err
}
