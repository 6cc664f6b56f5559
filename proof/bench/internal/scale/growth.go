package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tooldedup/dedup/proof/bench/internal/bed"
	"github.com/tooldedup/dedup/proof/bench/internal/measure"
	"github.com/tooldedup/dedup/proof/bench/internal/way"
)

// GrowthOptions are the options of growth, which measures a call against the size of its table.
type GrowthOptions struct {
	Sizes   []int // records in the table, the smallest first
	Clients []int // callers at a time
	Rounds  int   // of each measurement; medians count
	Calls   int   // of each way in each round
}

// Growth is the cost of first calls on tables of several sizes.
type Growth struct {
	Machine bed.Machine   `json:"machine"`
	Rows    []GrowthRow   `json:"rows"`
	Tables  []GrowthTable `json:"tables"`
}

// GrowthRow is one size, kind of keys and number of clients. Three ways were measured in turn in
// the same rounds: the bare transaction, a call on a table of the smallest size, and a call on this
// table. The ratios are therefore free of other changes of the machine between two sizes.
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

// GrowthTable is the size of a table on disk before calls, and the WAL of a call on it, effect
// included.
type GrowthTable struct {
	Keys KeyKind `json:"keys"`
	Sizes
	// Fresh was measured right after a checkpoint, when the first change of
	// every page writes the page whole; Warm after all other calls, without
	// a checkpoint. Random keys on a large table find no page warm for a long
	// time.
	Fresh float64 `json:"fresh_bytes_per_call"`
	Warm  float64 `json:"warm_bytes_per_call"`
}

// GrowthCommand returns the command `growth`.
func GrowthCommand() *cobra.Command {
	o := GrowthOptions{
		Sizes: []int{10_000, 100_000, 1_000_000, 5_000_000, 20_000_000}, Clients: []int{1, 16}, Rounds: 5, Calls: 1_000,
	}
	cmd := &cobra.Command{
		Use:   "growth",
		Short: "Measure the cost of a call against the size of its table",
		Long: `Fill tables with the records that the library would write, and measure
first calls on them: time, WAL and room. Every size is measured in the same rounds
as the bare transaction and as a table of the smallest size. The full form needs
25 GB of disk, in the folder that TMPDIR names, and takes the time that it takes to
fill 26 million records twice.`,
	}
	var file string
	cmd.Flags().StringVar(&file, "json", "", "also write the result to `FILE`")
	cmd.Flags().IntSliceVar(&o.Sizes, "sizes", o.Sizes, "`records` in the tables")
	cmd.Flags().IntVar(&o.Calls, "calls", o.Calls, "calls of each way in each round")
	counts := func() []int { return append(slices.Clone(o.Sizes), len(o.Sizes), o.Calls) }
	return command(cmd, counts, func(ctx context.Context, b *bed.Bed) error {
		slices.Sort(o.Sizes)
		g, err := growth(ctx, b, o)
		if err != nil {
			return err
		}
		g.write(b.Out)
		if file == "" {
			return nil
		}
		return measure.WriteJSON(file, g)
	})
}

func growth(ctx context.Context, b *bed.Bed, o GrowthOptions) (g *Growth, err error) {
	g = &Growth{}
	if g.Machine, err = b.Machine(ctx); err != nil {
		return nil, err
	}
	for _, keys := range []KeyKind{OrderedKeys, RandomKeys} {
		for _, size := range o.Sizes {
			if err := g.measure(ctx, b, o, keys, size); err != nil {
				return nil, fmt.Errorf("%s records, %s keys: %w", measure.Text(size), keys, err)
			}
		}
	}
	return g, nil
}

// measure fills a table to the size and measures on it right after a checkpoint. No other
// checkpoint follows.
func (g *Growth) measure(ctx context.Context, b *bed.Bed, o GrowthOptions, keys KeyKind, size int) (err error) {
	small, err := filled(ctx, b, fresh(keys, o.Sizes[0]))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, small.Drop(ctx)) }()
	grown, err := filled(ctx, b, fresh(keys, size)) // last, since it ends with a checkpoint
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, grown.Drop(ctx)) }()
	table := GrowthTable{Keys: keys}
	if table.Sizes, err = sizesOf(ctx, grown); err != nil {
		return err
	}
	if table.Fresh, err = walPerCall(ctx, grown, keys, o.Calls); err != nil {
		return err
	}
	for _, clients := range o.Clients {
		row, err := compare(ctx, o, keys, clients, small, grown)
		if err != nil {
			return err
		}
		row.Records = size
		g.Rows = append(g.Rows, row)
	}
	table.Warm, err = walPerCall(ctx, grown, keys, o.Calls)
	g.Tables = append(g.Tables, table)
	return err
}

// walPerCall measures the WAL of one client's calls.
func walPerCall(ctx context.Context, site *bed.Site, keys KeyKind, n int) (perCall float64, err error) {
	const position = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"
	err = site.Session(ctx, site.Env(1), func(session *way.Session) error {
		var before, after int64
		if err := site.Pool.QueryRow(ctx, position).Scan(&before); err != nil {
			return err
		}
		if _, err := (measure.Load{Clients: 1, MinOps: n}).Run(ctx, calls(session, keys)); err != nil {
			return err
		}
		err := site.Pool.QueryRow(ctx, position).Scan(&after)
		perCall = float64(after-before) / float64(n)
		return err
	})
	return perCall, err
}

// compare measures the three ways.
func compare(ctx context.Context, o GrowthOptions, keys KeyKind, clients int, small, grown *bed.Site) (row GrowthRow, err error) {
	var ops []measure.Op
	for _, on := range []struct {
		way  string
		site *bed.Site
	}{{way.Base, grown}, {"do", small}, {"do", grown}} {
		session, err := way.Named(on.way).Open(ctx, on.site.Env(clients))
		if err != nil {
			return row, err
		}
		defer func() { _ = session.Close() }()
		ops = append(ops, calls(session, keys))
	}
	load := measure.Load{Clients: clients, MinOps: o.Calls}
	found, err := load.Compare(ctx, clients*warmCalls, o.Rounds, ops)
	if err != nil {
		return row, err
	}
	bare, onSmall, call := found[0], found[1], found[2]
	return GrowthRow{
		Keys: keys, Clients: clients, Bare: bare.Latency(), Small: onSmall.Latency(), Call: call.Latency(),
		ToSmall: measure.Median(call.Ratios(onSmall, measure.Sample.P50)), ToBare: measure.Median(call.Ratios(bare, measure.Sample.P50)),
	}, nil
}

func (g *Growth) write(w io.Writer) {
	fmt.Fprint(w, "\nFirst calls with a one-row effect. Ratios of p50 are those of the same rounds.\n\n")
	t := measure.NewTable(w, "keys", "clients", "records", "bare p50", "call p50", "call p99", "calls/s",
		"to bare", "to small table, ≤ 1.25")
	for _, row := range g.Rows {
		t.Row(row.Keys, row.Clients, row.Records, row.Bare.P50, row.Call.P50, row.Call.P99, int(row.Call.PerSecond),
			row.ToBare, row.ToSmall)
	}
	t.Flush()

	fmt.Fprint(w, "Bytes a record, and of WAL a call: right after a checkpoint, when pages are written whole, and after all calls.\n\n")
	t = measure.NewTable(w, "keys", "records", "heap", "primary key", "due index", "total, ≤ 350",
		"WAL after checkpoint", "warm, ordered ≤ 700")
	for _, each := range g.Tables {
		perRecord := func(bytes int64) float64 { return float64(bytes) / float64(each.Records) }
		t.Row(each.Keys, each.Records, perRecord(each.Heap), perRecord(each.PrimaryKey), perRecord(each.DueIndex),
			perRecord(each.Total), each.Fresh, each.Warm)
	}
	t.Flush()
}
