// Package secrets is the campaign of canaries: words in arguments, keys and
// results that must be in the table and nowhere else: in no error, no event, no
// log line of the library's, no log of the server's.
package secrets

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/proof/internal/lab"
)

// scenarios are the ways in which a call can end. Each has four canaries: in its
// key, in an argument, in a nested argument and in its result.
var scenarios = []struct {
	name string
	run  func(ctx context.Context, s *scene) error
}{
	{"first-and-replay", func(ctx context.Context, s *scene) error {
		return errors.Join(s.do(ctx, s.args(), nil), s.do(ctx, s.args(), nil))
	}},
	{"reused", func(ctx context.Context, s *scene) error {
		return errors.Join(s.do(ctx, s.args(), nil), wants(s.do(ctx, map[string]any{"plain": s.canary("argument") + "-other"}, nil), dedup.ErrKeyReused))
	}},
	{"failing-statement", func(ctx context.Context, s *scene) error {
		return wantsAny(s.do(ctx, s.args(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO public.no_such_table VALUES ($1)`, s.canary("argument"))
			return err
		}))
	}},
	{"bad-result", func(ctx context.Context, s *scene) error {
		_, err := dedup.Do(ctx, s.d, s.call(s.args()), func(context.Context, pgx.Tx) (any, error) {
			return map[string]any{"secret": s.canary("result"), "broken": make(chan int)}, nil
		})
		s.saw(err)
		return wants(err, dedup.ErrInvalid)
	}},
	{"lost-commit", func(ctx context.Context, s *scene) error {
		cut := s.proxy.Arm(faultproxy.Fault{Kind: faultproxy.ReplyReset, Where: faultproxy.AtCommit})
		err := s.do(ctx, s.args(), nil)
		if cut.Count() != 1 {
			return errors.New("the COMMIT was not cut")
		}
		return err
	}},
	{"statement", func(ctx context.Context, s *scene) error {
		for _, args := range []any{s.args(), s.args(), map[string]any{"plain": s.canary("argument") + "-other"}} {
			_, err := dedup.DoStatement[map[string]any](ctx, s.d, s.call(args), dedup.SQL(`SELECT $1::text AS secret`, s.canary("result")))
			s.saw(err)
		}
		return nil
	}},
	{"broken", func(ctx context.Context, s *scene) error {
		return wants(s.do(ctx, s.args(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Conn().Exec(ctx, `COMMIT`)
			return err
		}), dedup.ErrBroken)
	}},
	{"twins", func(ctx context.Context, s *scene) error {
		var twins sync.WaitGroup
		for range 8 {
			twins.Go(func() { _ = s.do(ctx, s.args(), nil) })
		}
		twins.Wait()
		return nil
	}},
	{"cancelled", func(ctx context.Context, s *scene) error {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		return wantsAny(s.do(ctx, s.args(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT pg_sleep(5), $1::text`, s.canary("argument"))
			return err
		}))
	}},
	{"reset-and-look", func(ctx context.Context, s *scene) error {
		err := s.do(ctx, s.args(), nil)
		_, lookErr := s.d.Lookup(ctx, "scope", "tool", s.canary("key"))
		s.saw(lookErr)
		_, resetErr := s.d.Reset(ctx, "scope", "tool", s.canary("key"), dedup.ResetOptions{Reason: "wrong answer"})
		s.saw(resetErr)
		return errors.Join(err, lookErr, resetErr)
	}},
}

// places are where canaries are put.
var places = []string{"key", "argument", "nested", "result"}

// Settings are those of a server whose log can be read.
func Settings() map[string]string {
	return map[string]string{
		"logging_collector": "on", "log_directory": "log", "log_filename": "postgresql.log", "log_min_messages": "info", "log_error_verbosity": "verbose",
	}
}

// Run runs the campaign on a server with [Settings].
func Run(ctx context.Context, l *lab.Lab, p lab.Params, s *lab.Score) error {
	db, err := l.Create(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Drop(ctx) }()

	heard, names, err := provoke(ctx, db, p)
	s.Enter(lab.Arm{Calls: len(scenarios), Faults: map[string]int{"canaries": len(names)}, Tally: lab.Tally{Identities: len(names)}})
	if err != nil {
		return err
	}
	log, err := serverLog(ctx, db, l)
	if err != nil {
		return err
	}
	if !strings.Contains(log, "no_such_table") {
		return errors.New("the server's log does not tell of the statement that failed: it was not read")
	}
	leaks := map[string][]string{}
	for place, text := range map[string]string{"errors and events": heard, "the server's log": log} {
		for _, name := range names {
			if strings.Contains(text, name) {
				leaks[place] = append(leaks[place], name)
				s.Differing++
			}
		}
	}
	s.Details["canaries"], s.Details["leaks"] = len(names), leaks
	p.Sayf("%d canaries in %d scenarios, %d bytes of errors and events, %d of the server's log: %v", len(names), len(scenarios), len(heard), len(log), leaks)
	return control(ctx, db, l, s)
}

// scene is one scenario.
type scene struct {
	name   string
	seed   uint64
	d      *dedup.Deduper
	proxy  *faultproxy.Proxy
	logger *slog.Logger
}

// provoke runs every scenario and returns all that was heard, and the canaries.
func provoke(ctx context.Context, db *lab.Database, p lab.Params) (heard string, names []string, err error) {
	proxy, err := faultproxy.New(db.URL)
	if err != nil {
		return "", nil, err
	}
	defer proxy.Close()
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug - 10})) // one line at a time
	c, err := lab.OpenClient(ctx, proxy.URL(), 4, pgx.QueryExecModeCacheStatement, &dedup.Options{Tracer: dedup.NewSlogTracer(logger, nil)})
	if err != nil {
		return "", nil, err
	}
	defer c.Pool.Close()
	for _, sc := range scenarios {
		s := &scene{name: sc.name, seed: p.Seed, d: c.D, proxy: proxy, logger: logger}
		if err := sc.run(ctx, s); err != nil {
			return "", nil, fmt.Errorf("%s: %w", sc.name, err)
		}
		for _, place := range places {
			names = append(names, s.canary(place))
		}
	}
	if out.Len() == 0 {
		return "", nil, errors.New("no errors and no events: nothing was heard")
	}
	return out.String(), names, nil
}

// canary is a word that stands nowhere else.
func (s *scene) canary(place string) string {
	return fmt.Sprintf("canary-%x-%s-%s", s.seed, s.name, place)
}

func (s *scene) args() any {
	return map[string]any{"plain": s.canary("argument"), "deep": map[string]any{"list": []string{s.canary("nested")}}}
}

func (s *scene) call(args any) dedup.Call {
	return dedup.Call{Scope: "scope", Tool: "tool", Key: s.canary("key"), Args: args}
}

// do makes a call and notes every word of its error.
func (s *scene) do(ctx context.Context, args any, also func(context.Context, pgx.Tx) error) error {
	_, err := dedup.Do(ctx, s.d, s.call(args), func(ctx context.Context, tx pgx.Tx) (map[string]string, error) {
		if _, err := lab.Run("secret")(ctx, tx); err != nil {
			return nil, err
		}
		if also != nil {
			if err := also(ctx, tx); err != nil {
				return nil, err
			}
		}
		return map[string]string{"secret": s.canary("result")}, nil
	})
	s.saw(err)
	return err
}

// saw logs an error, as a caller would.
func (s *scene) saw(err error) {
	if err != nil {
		s.logger.Error(err.Error())
	}
}

func wants(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("expected %w, got %w", want, err)
}

func wantsAny(err error) error {
	if err != nil {
		return nil
	}
	return errors.New("expected an error")
}

// control shows that a canary that gets out is found: a statement with its values
// in the text fails, as one without dedup that was put together by hand.
func control(ctx context.Context, db *lab.Database, l *lab.Lab, s *lab.Score) error {
	const canary = "canary-of-the-control-arm"
	_, err := db.Pool.Exec(ctx, `INSERT INTO public.no_such_table VALUES ('`+canary+`')`)
	if err == nil {
		return errors.New("control: the statement did not fail")
	}
	log, err := serverLog(ctx, db, l)
	if err != nil {
		return err
	}
	s.EnterControl(lab.Arm{Calls: 1, Faults: map[string]int{"canary": 1}, Tally: lab.Tally{Identities: 1, Differing: strings.Count(log, canary)}})
	return nil
}

// serverLog returns the server's log up to now. The process that writes it comes after the others: it
// is read when it holds a mark that was made last.
func serverLog(ctx context.Context, db *lab.Database, l *lab.Lab) (log string, err error) {
	mark := "end of the log " + rand.Text()
	if _, err := db.Pool.Exec(ctx, `DO $$ BEGIN RAISE LOG '`+mark+`'; END $$`); err != nil {
		return "", fmt.Errorf("marking the server's log: %w", err)
	}
	err = lab.Insist(ctx, func(context.Context, int) error {
		text, err := os.ReadFile(filepath.Join(l.Server.DataDir(), "log", "postgresql.log"))
		if log = string(text); err == nil && !strings.Contains(log, mark) {
			err = errors.New("the server's log has no end yet")
		}
		return err
	})
	return log, err
}
