package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tooldedup/dedup/internal/pgserver"
	"github.com/tooldedup/dedup/internal/process"
	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
	"github.com/tooldedup/dedup/proof/internal/replay/worker"
)

// play is one arm: the whole recording, with workers of one mode.
type play struct {
	*flags
	mode    worker.Mode
	rec     *recording.Recording
	console *console
	db      *database
	places  []*place

	// The writes so far: their tool_call_ids, and their sessions, tools and arguments.
	ids, intents map[string]bool

	mu     sync.Mutex // guards the counts of a round's deliveries in result
	result result
}

// playArm replays the recording in a new database. On an error the result has the figures so far.
func playArm(ctx context.Context, f *flags, mode worker.Mode, rec *recording.Recording, s *pgserver.Server, c *console) (_ *result, err error) {
	p := &play{
		flags: f, mode: mode, rec: rec, console: c, ids: map[string]bool{}, intents: map[string]bool{},
		result: result{Mode: string(mode), Through: string(f.way), Seed: f.seed, Postgres: s.Source, Faults: map[faultKind]int{}},
	}
	for _, kind := range faultKinds {
		p.result.Faults[kind] = 0
	}
	if p.db, err = createDatabase(ctx, s, rec); err != nil {
		return nil, err
	}
	defer func() {
		if dropErr := p.db.drop(ctx); dropErr != nil {
			c.printf("%v", dropErr) // an interruption has no other message
			err = errors.Join(err, dropErr)
		}
	}()
	c.printf("%-10s database %s", string(mode)+":", p.db.Name)

	task := worker.Task{DatabaseURL: p.db.URL, Mode: mode, Way: f.way, Tools: ledger.Tools(rec)}
	defer p.closePlaces()
	for i := range workerCount {
		task.Name = fmt.Sprintf("dedup-replay-%d", i+1)
		place, err := newPlace(process.Command{Args: []string{workerName}, Stderr: c}, task)
		if err != nil {
			return nil, fmt.Errorf("starting workers: %w", err)
		}
		p.places = append(p.places, place)
	}
	if err := p.sessions(ctx); err != nil {
		return nil, err
	}
	return &p.result, checkComplete(rec, &p.result)
}

// sessions replays all sessions and completes the result.
func (p *play) sessions(ctx context.Context) (err error) {
	start := time.Now()
	for i := range p.rec.Sessions {
		if err := p.session(ctx, &p.rec.Sessions[i]); err != nil {
			return fmt.Errorf("session %s: %w", p.rec.Sessions[i].ID, err)
		}
	}
	r := &p.result
	r.Seconds = time.Since(start).Seconds()
	r.Processes = p.processes()
	r.Checked.Records, err = p.db.countRecords(ctx)
	return err
}

// A line is written after every so many sessions.
const every = 20

// session replays one session and checks its effects.
func (p *play) session(ctx context.Context, recorded *recording.Session) error {
	s := &session{play: p, recorded: recorded}
	for i := range recorded.Calls {
		call := &recorded.Calls[i]
		if err := s.call(ctx, call); err != nil {
			return fmt.Errorf("call %d, %s: %w", call.Seq, call.Tool, err)
		}
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	r := &p.result
	r.Sessions++
	if r.Sessions%every == 0 || r.Sessions == len(p.rec.Sessions) {
		p.console.printf("%-5s %d/%d sessions, %d writes, %d deliveries, %d faults",
			p.mode, r.Sessions, len(p.rec.Sessions), r.Writes, r.Deliveries, r.FaultsTotal)
	}
	return nil
}

// repeats notes a write and reports whether it repeats an earlier one of its session with equal
// arguments. No recorded call is a re-delivery, so the repeat is intended.
func (p *play) repeats(call *recording.Call) (repeated bool) {
	if p.ids[call.ToolCallID] {
		p.result.ReusedIDs++
	}
	p.ids[call.ToolCallID] = true
	intent := call.Session + "\x00" + call.Tool + "\x00" + canonical(call.Arguments)
	repeated = p.intents[intent]
	p.intents[intent] = true
	return repeated
}

// canonical returns equal text for equal values.
func canonical(arguments json.RawMessage) string {
	var value any
	if json.Unmarshal(arguments, &value) != nil {
		return string(arguments)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return string(arguments)
	}
	return string(text)
}

// processes returns the number of started processes.
func (p *play) processes() (sum int) {
	for _, place := range p.places {
		sum += place.seat.Started()
	}
	return sum
}

func (p *play) closePlaces() {
	var closing sync.WaitGroup
	for _, place := range p.places {
		closing.Go(place.close)
	}
	closing.Wait()
}
