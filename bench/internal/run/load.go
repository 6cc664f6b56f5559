package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tooldedup/dedup/bench/internal/bed"
	"github.com/tooldedup/dedup/bench/internal/measure"
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
	session *way.Session
	kind    Kind
}

// measureLoad measures every cell of a setting, and adds them to the report.
func (r *runner) measureLoad(ctx context.Context, set setting) (err error) {
	var cells []cell
	for _, site := range r.sites {
		session, failed := site.Way.Open(ctx, site.Env(set.clients, set.line))
		if failed != nil {
			return fmt.Errorf("%s: %w", site.Way.Name, failed)
		}
		defer func() { err = errors.Join(err, session.Close()) }()
		for _, kind := range r.kindsOf(site.Way, set) {
			cells = append(cells, cell{site: site, session: session, kind: kind})
		}
	}
	if len(cells) == 0 {
		return nil
	}
	// The dirty pages of the setting before are nobody's load in this one.
	if _, err := r.bed.Admin.Exec(ctx, `CHECKPOINT`); err != nil {
		return fmt.Errorf("making a checkpoint: %w", err)
	}
	var ops []measure.Op
	for _, c := range cells {
		ops = append(ops, c.op(set.clients))
	}
	load := measure.Load{Clients: set.clients, Duration: r.duration, MinOps: r.minOps}
	samples, err := load.Compare(ctx, warmOps*set.clients, r.rounds, ops)
	if err != nil {
		return err
	}
	for i, c := range cells {
		base := max(0, slices.IndexFunc(cells, func(b cell) bool { return b.site.Way.Name == r.to && b.kind == c.kind }))
		sum := summarize(samples[i], samples[base])
		sum.Way, sum.Kind, sum.Delay, sum.Clients = c.site.Way.Name, c.kind, set.delay, set.clients
		r.found.Cells = append(r.found.Cells, sum)
	}
	return nil
}

// kindsOf are the kinds of calls of the way that are measured.
func (r *runner) kindsOf(w way.Way, set setting) []Kind {
	kinds := []Kind{First}
	if w.Replays {
		kinds = append(kinds, Replay)
	}
	if w.OneKey && set.clients > 1 {
		kinds = append(kinds, OneKey)
	}
	return slices.DeleteFunc(kinds, func(kind Kind) bool {
		unasked := len(r.kinds) > 0 && !slices.Contains(r.kinds, string(kind))
		return unasked || r.bounds != nil && !judged(r.bounds, w.Name, kind, set.delay, set.clients)
	})
}

// op is the operation of the cell's kind.
func (c cell) op(clients int) measure.Op {
	seeds, batch := c.site.Seeds, c.site.Way.Batch
	if c.kind == OneKey {
		seeds = seeds[:batch]
	}
	// Each client walks through the seeds from a place of its own.
	next := make([]int, clients)
	for client := range next {
		next[client] = client * len(seeds) / clients
	}
	keys := func(client int) []string {
		if c.kind == First {
			return c.site.NewKeys()
		}
		if next[client]+batch > len(seeds) {
			next[client] = 0
		}
		next[client] += batch
		return seeds[next[client]-batch : next[client]]
	}
	return func(ctx context.Context, client int) (int, error) {
		if err := c.session.Call(ctx, keys(client)); err != nil {
			return 0, fmt.Errorf("%s, %s: %w", c.site.Way.Name, c.kind, err)
		}
		return batch, nil
	}
}

// summarize compares the samples of a cell, one a round, with those of the base in the
// same rounds.
func summarize(samples, base []measure.Sample) (c Cell) {
	var all measure.Sample
	var rates, ratios []float64
	for round, s := range samples {
		rates = append(rates, s.PerSecond())
		ratios = append(ratios, s.PerSecond()/base[round].PerSecond())
		all = all.And(s)
	}
	c.Processor = time.Duration(measure.MedianOf(samples, func(s measure.Sample) float64 { return float64(s.ProcessorPerCall()) }))
	l := all.Latency()
	c.P50, c.P99, c.Ops = l.P50, l.P99, len(all.Latencies)
	c.PerSecond = measure.Median(rates)
	c.Ratio, c.RatioLow, c.RatioHigh = measure.Median(ratios), slices.Min(ratios), slices.Max(ratios)
	return c
}
