package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/way"
)

// warmOps is how many operations each client makes of every cell before the
// first round: connections learn their statements, caches fill.
const warmOps = 10

// A setting is what all cells of a comparison have in common.
type setting struct {
	line    bed.Line
	delay   time.Duration
	clients int
}

// A cell is one way with one kind of call.
type cell struct {
	site    *bed.Site
	session way.Session
	kind    report.Kind
}

// measureLoad measures every cell of a setting, and adds them to the report.
func measureLoad(ctx context.Context, b *bed.Bed, sites []*bed.Site, o Options, set setting, r *report.Report) (err error) {
	var sessions []way.Session
	defer func() {
		for _, s := range sessions {
			err = errors.Join(err, s.Close())
		}
	}()
	var cells []cell
	for _, site := range sites {
		session, err := site.Way.Open(ctx, site.Env(set.clients, set.line))
		if err != nil {
			return fmt.Errorf("%s: %w", site.Way.Name, err)
		}
		sessions = append(sessions, session)
		for _, kind := range kinds(site.Way, set, o) {
			cells = append(cells, cell{site: site, session: session, kind: kind})
		}
	}
	if len(cells) == 0 {
		return nil
	}
	// The dirty pages of the setting before are nobody's load in this one.
	if _, err := b.Admin.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("making a checkpoint: %w", err)
	}
	for _, c := range cells {
		if _, err := c.load(ctx, measure.Load{Clients: set.clients, MinOps: warmOps * set.clients}); err != nil {
			return err
		}
	}

	samples := make([][]measure.Sample, len(cells))
	load := measure.Load{Clients: set.clients, Duration: o.Duration, MinOps: o.MinOps}
	err = measure.Rounds(o.Rounds, len(cells), func(_, i int) error {
		sample, err := cells[i].load(ctx, load)
		samples[i] = append(samples[i], sample)
		return err
	})
	if err != nil {
		return err
	}
	for i, c := range cells {
		r.Cells = append(r.Cells, c.report(measure.Summarize(samples[i], samples[0]), set))
	}
	return nil
}

// kinds are the kinds of calls of the way that are measured.
func kinds(w way.Way, set setting, o Options) []report.Kind {
	kinds := []report.Kind{report.First}
	if w.Replays {
		kinds = append(kinds, report.Replay)
	}
	if w.OneKey && set.clients > 1 {
		kinds = append(kinds, report.OneKey)
	}
	return slices.DeleteFunc(kinds, func(kind report.Kind) bool { return o.wants != nil && !o.wants(w.Name, kind, set.delay, set.clients) })
}

// load puts the load on the cell.
func (c cell) load(ctx context.Context, load measure.Load) (measure.Sample, error) {
	sample, err := load.Run(ctx, c.op(load.Clients))
	if err != nil {
		return sample, fmt.Errorf("%s: %w", cellName(c.site, c.kind), err)
	}
	return sample, nil
}

// op is the operation of the cell's kind.
func (c cell) op(clients int) measure.Op {
	seeds, batch := c.site.Seeds, c.site.Way.Batch
	if c.kind == report.First {
		return func(ctx context.Context, _ int) (int, error) {
			_, err := c.site.First(ctx, c.session)
			return batch, err
		}
	}
	if c.kind == report.OneKey {
		seeds = seeds[:batch]
	}
	// Each client walks through the seeds from a place of its own.
	next := make([]int, clients)
	for client := range next {
		next[client] = client * len(seeds) / clients
	}
	return func(ctx context.Context, client int) (int, error) {
		if next[client]+batch > len(seeds) {
			next[client] = 0
		}
		keys := seeds[next[client] : next[client]+batch]
		next[client] += batch
		return batch, c.session.Call(ctx, keys)
	}
}

func (c cell) report(s measure.Summary, set setting) report.Cell {
	return report.Cell{
		Way: c.site.Way.Name, Kind: c.kind, Delay: set.delay, Clients: set.clients,
		PerSecond: s.PerSecond, Slowest: s.Slowest, Fastest: s.Fastest, P50: s.P50, P99: s.P99, Ops: s.Ops,
		Ratio: s.Ratio, RatioLow: s.Low, RatioHigh: s.High,
	}
}
