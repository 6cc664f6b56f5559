package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
)

// GrowthOptions say how the cost of a call is measured against the size of its
// table.
type GrowthOptions struct {
	Sizes   []int     // records in the table, the smallest first
	Clients []int     // callers at a time
	Kinds   []KeyKind // of the keys
	Rounds  int       // of each measurement; medians count
	Calls   int       // of each way in each round
	Real    int       // calls whose records are weighed
}

// Growth is what first calls cost on tables of several sizes.
type Growth struct {
	Machine report.Machine `json:"machine"`
	Rows    []GrowthRow    `json:"rows"`
	Writes  []GrowthWrite  `json:"writes"`
	Weights []Weight       `json:"weights"`
	Goals   []Goal         `json:"goals"`
}

// GrowthRow is one size, kind of keys and number of clients. Three ways were
// measured in turn in the same rounds: the bare transaction, a call on a table
// of the smallest size, and a call on this table. So the ratios are free of
// whatever else changed on the machine between two sizes.
type GrowthRow struct {
	Keys    KeyKind         `json:"keys"`
	Records int             `json:"records"`
	Clients int             `json:"clients"`
	Bare    measure.Latency `json:"bare"`
	Small   measure.Latency `json:"small"`
	Call    measure.Latency `json:"call"`
	// ToSmall and ToBare are the p50 of a call divided by that on the small
	// table and by that of the bare transaction: medians of the rounds' ratios.
	ToSmall float64 `json:"p50_to_small"`
	ToBare  float64 `json:"p50_to_bare"`
}

// GrowthWrite is the WAL that a call writes, effect included.
type GrowthWrite struct {
	Keys    KeyKind `json:"keys"`
	Records int     `json:"records"`
	// Fresh was measured right after a checkpoint, when the first change of
	// every page writes the page whole; Warm after Before further calls without
	// a checkpoint. Random keys on a large table find no page warm for a long
	// time.
	Fresh  float64 `json:"fresh_bytes_per_call"`
	Warm   float64 `json:"warm_bytes_per_call"`
	Before int     `json:"calls_before_warm"`
}

// The schemas of the tables: one that grows, and those of the smallest size.
const (
	grownSchema = "grown"
	smallSchema = "small"
)

func growth(ctx context.Context, s stand, o GrowthOptions) (*Growth, error) {
	machine, err := s.machine(ctx)
	if err != nil {
		return nil, err
	}
	g := &Growth{Machine: machine}
	for _, keys := range o.Kinds {
		if err := g.weighCalls(ctx, s, keys, o.Real); err != nil {
			return nil, fmt.Errorf("weighing records of calls: %w", err)
		}
		for _, size := range o.Sizes {
			if err := g.measure(ctx, s, o, keys, size); err != nil {
				return nil, fmt.Errorf("%s records, %s keys: %w", figure.Thousands(int64(size)), keys, err)
			}
		}
	}
	g.Goals = g.goals(o)
	return g, nil
}

// measure fills a table to the size and measures on it.
func (g *Growth) measure(ctx context.Context, s stand, o GrowthOptions, keys KeyKind, size int) error {
	conns := 2
	for _, clients := range o.Clients {
		conns = max(conns, clients)
	}
	pool, err := s.pool(ctx, conns)
	if err != nil {
		return err
	}
	defer pool.Close()

	// The small tables come first, one for each number of clients, since calls
	// make them grow: a filling ends with a checkpoint.
	schemas := []string{grownSchema}
	var smalls []*tool
	for i := range o.Clients {
		schema := fmt.Sprintf("%s_%d", smallSchema, i)
		small, err := s.filled(ctx, pool, schema, keys, o.Sizes[0])
		if err != nil {
			return err
		}
		smalls, schemas = append(smalls, small), append(schemas, schema)
	}
	begun := time.Now()
	grown, err := s.filled(ctx, pool, grownSchema, keys, size)
	if err != nil {
		return err
	}
	s.say("%s records with %s keys, filled in %s", figure.Thousands(int64(size)), keys, time.Since(begun).Round(time.Millisecond))
	if size == o.Sizes[len(o.Sizes)-1] {
		if err := g.weigh(ctx, pool, grownSchema, Weight{Keys: keys, Filled: "COPY"}); err != nil {
			return err
		}
	}
	if err := g.measureOn(ctx, o, keys, size, grown, smalls); err != nil {
		return err
	}
	for _, schema := range schemas {
		if err := drop(ctx, pool, schema); err != nil {
			return err
		}
	}
	return nil
}

// measureOn measures right after a checkpoint, and lets no other come.
func (g *Growth) measureOn(ctx context.Context, o GrowthOptions, keys KeyKind, size int, grown *tool, smalls []*tool) (err error) {
	write := GrowthWrite{Keys: keys, Records: size}
	if write.Fresh, err = walPerCall(ctx, grown.pool, grown.first(keys), o.Calls); err != nil {
		return err
	}
	write.Before = o.Calls
	for i, clients := range o.Clients {
		row, err := compare(ctx, o, keys, clients, smalls[i], grown)
		if err != nil {
			return err
		}
		row.Records = size
		g.Rows = append(g.Rows, row)
		write.Before += row.Call.Calls
	}
	if write.Warm, err = walPerCall(ctx, grown.pool, grown.first(keys), o.Calls); err != nil {
		return err
	}
	g.Writes = append(g.Writes, write)
	return nil
}

// filled makes a table of the size, as it stands a day after records began to
// come in: none of them is due.
func (s stand) filled(ctx context.Context, pool *pgxpool.Pool, schema string, keys KeyKind, size int) (*tool, error) {
	if err := s.field(ctx, schema); err != nil {
		return nil, err
	}
	retention := dedup.Retention{Result: 24 * time.Hour, Tombstone: 30 * 24 * time.Hour}
	t, err := newTool(pool, dedup.Options{Schema: schema, Retention: retention})
	if err != nil {
		return nil, err
	}
	f := filling{keys: keys, records: size, from: 20 * time.Hour, to: time.Second, retention: retention}
	return t, f.into(ctx, t, schema)
}
