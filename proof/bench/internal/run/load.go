package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// A cell is one way with one kind of call.
type cell struct {
	site    *bed.Site
	session *way.Session
	kind    Kind
}

// measureLoad measures every cell under a load and adds it to the report.
func (r *runner) measureLoad(ctx context.Context, load Load, line bed.Line) (err error) {
	var cells []cell
	var ops []measure.Op
	for _, site := range r.sites {
		session, failed := site.Way.Open(ctx, site.EnvOver(line, load.Clients))
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, session.Close()) }()
		for _, kind := range r.kindsOf(site.Way, load.Clients) {
			c := cell{site, session, kind}
			cells, ops = append(cells, c), append(ops, c.op(load.Clients))
		}
	}
	if len(cells) == 0 {
		return nil
	}
	if err := r.bed.Checkpoint(ctx); err != nil {
		return err
	}
	each := measure.Load{Clients: load.Clients, Duration: r.duration, MinOps: r.minOps}
	samples, err := each.Compare(ctx, r.warmOps*load.Clients, r.rounds, ops)
	if err != nil {
		return err
	}
	for i, c := range cells {
		base := max(0, slices.IndexFunc(cells, func(b cell) bool { return b.site.Way.Name == r.to && b.kind == c.kind }))
		found := compare(samples[i], samples[base])
		found.Way, found.Kind, found.Load = c.site.Way.Name, c.kind, load
		r.found.Cells = append(r.found.Cells, found)
	}
	return nil
}

// kindsOf returns the measured kinds of calls of a way.
func (r *runner) kindsOf(w way.Way, clients int) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind Kind) bool {
		unasked := len(r.kinds) > 0 && !slices.Contains(r.kinds, string(kind))
		return unasked || kind != First && !w.Replays || kind == OneKey && (clients == 1 || w.Batch > 1)
	})
}

// op is the operation of the cell's kind.
func (c cell) op(clients int) measure.Op {
	keys := keys(c.site, c.kind, clients)
	return func(ctx context.Context, client int) (int, error) {
		if err := c.session.Call(ctx, keys(client)); err != nil {
			return 0, fmt.Errorf("%s, %s: %w", c.site.Way.Name, c.kind, err)
		}
		return c.site.Way.Batch, nil
	}
}

// keys returns the keys of a client's next operation: new keys, or keys of earlier calls. Each
// client walks through the earlier keys from its own start.
func keys(site *bed.Site, kind Kind, clients int) func(client int) []string {
	if kind == First {
		return func(int) []string { return site.NewKeys() }
	}
	seeds, batch := site.Seeds, site.Way.Batch
	if kind == OneKey {
		seeds = seeds[:batch]
	}
	next := make([]int, clients)
	for client := range next {
		next[client] = client * len(seeds) / clients
	}
	return func(client int) []string {
		if next[client]+batch > len(seeds) {
			next[client] = 0
		}
		next[client] += batch
		return seeds[next[client]-batch : next[client]]
	}
}

// compare compares the rounds of a cell with those of the base.
func compare(rounds, base measure.Rounds) Cell {
	ratios := rounds.Ratios(base, measure.Sample.PerSecond)
	c := Cell{
		Latency:   rounds.Latency(),
		Processor: time.Duration(rounds.Median(measure.Sample.ProcessorPerCall)),
		Ratio:     measure.Median(ratios), RatioLow: slices.Min(ratios), RatioHigh: slices.Max(ratios),
	}
	return c
}
