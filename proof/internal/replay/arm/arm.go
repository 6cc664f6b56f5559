// Package arm runs a whole recording through workers of one mode, delivers each
// write as its plan says, and checks what comes of it.
package arm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tooldedup/dedup/internal/faultproxy"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/fleet"
	"github.com/tooldedup/dedup/proof/internal/replay/payment"
	"github.com/tooldedup/dedup/proof/internal/replay/plan"
	"github.com/tooldedup/dedup/proof/internal/replay/progress"
	"github.com/tooldedup/dedup/proof/internal/replay/report"
	"github.com/tooldedup/dedup/proof/internal/replay/stage"
	"github.com/tooldedup/dedup/proof/internal/replay/wire"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// Config says what is replayed, where and how.
type Config struct {
	Recording *recording.Recording
	worker.Setup
	Seed    uint64
	Kinds   plan.Set
	Worker  process.Command
	Display *progress.Display // takes the workers' stderr too
	// Verbose lists on the display what does not agree with the recording.
	Verbose bool
}

// run is one arm at work.
type run struct {
	Config
	db    *stage.Database
	fleet *fleet.Fleet
	tally tally
	seen  history
	pays  *paying // nil where all is in the database
}

// Run replays the recording in a database of its own. The error says that the
// replay could not be done or checked; what it found is in the result.
func Run(ctx context.Context, cfg Config, server *stage.Server) (result *report.Result, err error) {
	db, err := server.CreateDatabase(ctx, cfg.Recording)
	if err != nil {
		return nil, err
	}
	defer func() {
		if dropErr := db.Drop(ctx); dropErr != nil {
			cfg.Display.Printf("%v", dropErr) // of an interruption nothing else is said
			err = errors.Join(err, dropErr)
		}
	}()

	cfg.Display.Printf("%-10s database %s", string(cfg.Mode)+":", db.Name)

	r := &run{Config: cfg, db: db, seen: newHistory()}
	r.Schemas, r.Worker.Stderr = db.Schemas(), cfg.Display
	if cfg.Pays != payment.Off {
		if r.pays, err = r.startPaying(ctx); err != nil {
			return nil, err
		}
		defer r.pays.provider.Close()
		r.Provider = r.pays.provider.URL
	}
	workers, err := fleet.Start(fleet.Config{Command: r.Worker, Setup: r.Setup, Size: plan.Workers, DatabaseURLs: db.URLs})
	if err != nil {
		return nil, fmt.Errorf("starting workers: %w", err)
	}
	defer workers.Close()
	r.fleet = workers // nobody asks the provider before

	start := time.Now()
	for i := range cfg.Recording.Sessions {
		if err := r.session(ctx, &cfg.Recording.Sessions[i]); err != nil {
			return nil, fmt.Errorf("session %s: %w", cfg.Recording.Sessions[i].ID, err)
		}
	}
	result = r.tally.result()
	result.Mode, result.Through = string(cfg.Mode), string(cfg.Way)
	result.Seed, result.Postgres = cfg.Seed, server.Source
	result.Seconds = time.Since(start).Seconds()
	result.Processes, result.ReusedIDs = workers.Processes(), r.seen.reused
	if result.Checked.Records, err = db.CountRecords(ctx); err != nil {
		return nil, err
	}
	if r.pays != nil {
		result.External = r.pays.result()
	}
	if cfg.Metrics {
		if result.Metrics, err = r.metrics(ctx); err != nil {
			return nil, err
		}
	}
	return result, checkComplete(cfg.Recording, result)
}

// session replays one session from the pristine world and checks what it left.
func (r *run) session(ctx context.Context, session *recording.Session) error {
	if err := r.db.Reset(ctx, session.Domain); err != nil {
		return err
	}
	s := &sessionRun{run: r, session: session}
	for i := range session.Calls {
		if err := s.call(ctx, &session.Calls[i]); err != nil {
			return err
		}
		r.Display.Show(r.progress())
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	r.tally.sessions++
	r.Display.SessionDone(r.progress())
	return nil
}

func (r *run) progress() progress.State {
	return r.tally.progress(string(r.Mode), len(r.Recording.Sessions))
}

// targets lets faults reach workers and backends.
type targets struct{ *run }

func (t targets) Proxy(at int) *faultproxy.Proxy { return t.fleet.Proxy(at) }
func (t targets) Wire(at int) *wire.Transport    { return t.fleet.Wire(at) }
func (t targets) Between() []*faultproxy.Proxy   { return t.db.Between }
func (t targets) Kill(at int) bool               { return t.fleet.Kill(at) }
func (t targets) Terminate(ctx context.Context, at int) (bool, error) {
	return t.db.TerminateBackend(ctx, t.fleet.Name(at))
}
