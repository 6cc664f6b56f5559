package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/bench/internal/figure"
	"github.com/tooldedup/dedup/bench/internal/measure"
	"github.com/tooldedup/dedup/bench/internal/report"
	"github.com/tooldedup/dedup/bench/internal/server"
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

// Weight is what records take on disk.
type Weight struct {
	Keys   KeyKind `json:"keys"`
	Filled string  `json:"filled_by"` // COPY or calls
	Sizes
}

// GrowthCommand returns the command `growth`.
func GrowthCommand() *cobra.Command {
	return growthCommand(GrowthOptions{
		Sizes: []int{10_000, 100_000, 1_000_000, 5_000_000, 20_000_000}, Clients: []int{1, 16},
		Kinds: []KeyKind{OrderedKeys, RandomKeys}, Rounds: 5, Calls: 1_000, Real: 50_000,
	})
}

func growthCommand(o GrowthOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "growth",
		Short: "Measure the cost of a call against the size of its table",
		Long: `Fill tables by COPY with the records that the library would write, and measure
first calls on them: time, WAL and room. Every size is measured in the same rounds
as the bare transaction and as a table of the smallest size. The full form needs
25 GB of disk, in the folder that TMPDIR names, and takes the time that it takes to
fill 26 million records twice.`,
		PreRunE: func(*cobra.Command, []string) error {
			slices.Sort(o.Sizes)
			if len(o.Sizes) == 0 || min(o.Sizes[0], o.Calls, o.Real) < 1 {
				return errors.New("--sizes, --calls, --real: must be at least 1")
			}
			return nil
		},
	}
	var file string
	cmd.Flags().StringVar(&file, "json", "", "also write the result to `FILE`")
	cmd.Flags().IntSliceVar(&o.Sizes, "sizes", o.Sizes, "`records` in the tables")
	cmd.Flags().IntVar(&o.Calls, "calls", o.Calls, "calls of each way in each round")
	cmd.Flags().IntVar(&o.Real, "real", o.Real, "calls whose records are weighed")
	// A checkpoint in the middle of a round would make pages be written whole
	// again. Those that are wanted are asked for.
	settings := map[string]string{"checkpoint_timeout": "1h"}
	return command(cmd, settings, func(ctx context.Context, s stand) error {
		g, err := growth(ctx, s, o)
		if err != nil {
			return err
		}
		g.write(s.out)
		if file == "" {
			return nil
		}
		return report.WriteJSON(file, g)
	})
}

func growth(ctx context.Context, s stand, o GrowthOptions) (*Growth, error) {
	g := &Growth{Machine: s.machine}
	for _, keys := range o.Kinds {
		if err := g.weighCalls(ctx, s, o, keys); err != nil {
			return nil, fmt.Errorf("weighing records of calls: %w", err)
		}
		for _, size := range o.Sizes {
			if err := g.measure(ctx, s, o, keys, size); err != nil {
				return nil, fmt.Errorf("%s records, %s keys: %w", figure.Thousands(size), keys, err)
			}
		}
	}
	return g, nil
}

// weighCalls measures the records of real calls, so that the filled table can be
// compared with what it stands for.
func (g *Growth) weighCalls(ctx context.Context, s stand, o GrowthOptions, keys KeyKind) error {
	s.say("%s calls with %s keys, to weigh their records", figure.Thousands(o.Real), keys)
	const clients = 4
	pool, err := server.Pool(ctx, s.url, clients)
	if err != nil {
		return err
	}
	defer pool.Close()
	t, err := newField(ctx, pool, dedup.Options{Schema: "real", Retention: dedup.TaskRetention()})
	if err != nil {
		return err
	}
	if err := drive(ctx, clients, o.Real, t.first(keys)); err != nil {
		return err
	}
	return g.weigh(ctx, t, keys, "calls")
}

func (g *Growth) weigh(ctx context.Context, t *tool, keys KeyKind, filled string) error {
	sizes, err := t.sizes(ctx)
	g.Weights = append(g.Weights, Weight{keys, filled, sizes})
	return err
}

// measure fills a table to the size and measures on it, right after a checkpoint,
// letting no other come.
func (g *Growth) measure(ctx context.Context, s stand, o GrowthOptions, keys KeyKind, size int) error {
	pool, err := server.Pool(ctx, s.url, max(2, slices.Max(o.Clients)))
	if err != nil {
		return err
	}
	defer pool.Close()
	// The small tables come first, one for each number of clients, since calls
	// make them grow: a filling ends with a checkpoint.
	var smalls []*tool
	for i := range o.Clients {
		small, err := filled(ctx, pool, fmt.Sprintf("small_%d", i), keys, o.Sizes[0])
		if err != nil {
			return err
		}
		smalls = append(smalls, small)
	}
	begun := time.Now()
	grown, err := filled(ctx, pool, "grown", keys, size)
	if err != nil {
		return err
	}
	s.say("%s records with %s keys, filled in %s", figure.Thousands(size), keys, time.Since(begun).Round(time.Millisecond))
	if size == o.Sizes[len(o.Sizes)-1] {
		if err := g.weigh(ctx, grown, keys, "COPY"); err != nil {
			return err
		}
	}
	write := GrowthWrite{Keys: keys, Records: size, Before: o.Calls}
	if write.Fresh, err = walPerCall(ctx, grown, keys, o.Calls); err != nil {
		return err
	}
	for i, clients := range o.Clients {
		row, err := compare(ctx, o, keys, clients, smalls[i], grown)
		if err != nil {
			return err
		}
		row.Records = size
		g.Rows = append(g.Rows, row)
		write.Before += row.Call.Calls
	}
	if write.Warm, err = walPerCall(ctx, grown, keys, o.Calls); err != nil {
		return err
	}
	g.Writes = append(g.Writes, write)
	return nil
}

// filled makes a table of the size, as it stands a day after records began to
// come in: none of them is due.
func filled(ctx context.Context, pool *pgxpool.Pool, schema string, keys KeyKind, size int) (*tool, error) {
	retention := dedup.Retention{Result: 24 * time.Hour, Tombstone: 30 * 24 * time.Hour}
	t, err := newField(ctx, pool, dedup.Options{Schema: schema, Retention: retention})
	if err != nil {
		return nil, err
	}
	f := filling{keys: keys, records: size, from: 20 * time.Hour, to: time.Second, retention: retention}
	return t, f.into(ctx, t)
}

// walPerCall measures what one client's calls write.
func walPerCall(ctx context.Context, t *tool, keys KeyKind, calls int) (float64, error) {
	const position = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
	var before, after int64
	if err := t.pool.QueryRow(ctx, position).Scan(&before); err != nil {
		return 0, err
	}
	if err := drive(ctx, 1, calls, t.first(keys)); err != nil {
		return 0, err
	}
	err := t.pool.QueryRow(ctx, position).Scan(&after)
	return float64(after-before) / float64(calls), err
}

// compare measures the three ways.
func compare(ctx context.Context, o GrowthOptions, keys KeyKind, clients int, small, grown *tool) (GrowthRow, error) {
	load := measure.Load{Clients: clients, MinOps: o.Calls}
	found, err := load.Compare(ctx, clients*warmCalls, o.Rounds, []measure.Op{grown.bare(keys), small.first(keys), grown.first(keys)})
	if err != nil {
		return GrowthRow{}, err
	}
	against := func(way int) float64 {
		var ratios []float64
		for round, call := range found[2] {
			ratios = append(ratios, ratio(call.Latency().P50, found[way][round].Latency().P50))
		}
		return measure.Median(ratios)
	}
	return GrowthRow{
		Keys: keys, Clients: clients,
		Bare: measure.Middle(found[0]), Small: measure.Middle(found[1]), Call: measure.Middle(found[2]),
		ToSmall: against(1), ToBare: against(0),
	}, nil
}

func (g *Growth) write(w io.Writer) {
	fmt.Fprint(w, "\nFirst calls with a one-row effect. Ratios of p50 are those of the same rounds.\n\n")
	t := figure.NewTable("keys", "clients", "records", "bare p50", "call p50", "call p99", "calls/s", "to bare", "to small table, ≤ 1.25x")
	for _, row := range g.Rows {
		t.Row(row.Keys, row.Clients, row.Records, row.Bare.P50, row.Call.P50, row.Call.P99, int(row.Call.PerSecond),
			times(row.ToBare), times(row.ToSmall))
	}
	t.Write(w)

	fmt.Fprint(w, "WAL bytes a call, effect included: right after a checkpoint, when pages are written whole, and after further calls.\n\n")
	t = figure.NewTable("keys", "records", "after checkpoint", "warm, ordered ≤ 700", "calls before")
	for _, write := range g.Writes {
		t.Row(write.Keys, write.Records, write.Fresh, write.Warm, write.Before)
	}
	t.Write(w)

	fmt.Fprint(w, "Bytes a record.\n\n")
	t = figure.NewTable("keys", "filled by", "records", "heap", "primary key", "due index", "total, ≤ 350")
	for _, each := range g.Weights {
		t.Row(each.Keys, each.Filled, each.Records, ratio(each.Heap, each.Records), ratio(each.PrimaryKey, each.Records),
			ratio(each.DueIndex, each.Records), ratio(each.Total, each.Records))
	}
	t.Write(w)
}
