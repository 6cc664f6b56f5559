package scale

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup/bench/internal/measure"
)

// first makes first calls.
func (t *tool) first(keys KeyKind) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := t.call(ctx, keys.newKey(time.Now())) //dedupvet:ignore a measured call is made once
		return err
	}
}

// firstBare makes the same without records.
func (t *tool) firstBare(keys KeyKind) func(context.Context) error {
	return func(ctx context.Context) error {
		return t.bare(ctx, keys.newKey(time.Now())) //dedupvet:ignore a measured call is made once
	}
}

// walPerCall measures what one client's calls write.
func walPerCall(ctx context.Context, pool *pgxpool.Pool, call func(context.Context) error, calls int) (float64, error) {
	position := func() (bytes int64, err error) {
		err = pool.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&bytes)
		return bytes, err
	}
	before, err := position()
	if err != nil {
		return 0, err
	}
	if _, err := drive(ctx, 1, calls, call); err != nil {
		return 0, err
	}
	after, err := position()
	return float64(after-before) / float64(calls), err
}

// compare measures the three ways in turn, each round beginning with another.
func compare(ctx context.Context, o GrowthOptions, keys KeyKind, clients int, small, grown *tool) (GrowthRow, error) {
	const bare, onSmall, onGrown = 0, 1, 2
	ways := [...]func(context.Context) error{bare: grown.firstBare(keys), onSmall: small.first(keys), onGrown: grown.first(keys)}
	for _, way := range ways { // prepares the statements on every connection
		if _, err := drive(ctx, clients, clients*warmCalls, way); err != nil {
			return GrowthRow{}, err
		}
	}
	rounds := make([][len(ways)]measure.Latency, o.Rounds)
	err := measure.Rounds(o.Rounds, len(ways), func(round, way int) (err error) {
		rounds[round][way], err = drive(ctx, clients, o.Calls, ways[way])
		return err
	})
	if err != nil {
		return GrowthRow{}, err
	}

	of := func(way int) measure.Latency {
		var all []measure.Latency
		for _, round := range rounds {
			all = append(all, round[way])
		}
		return measure.Middle(all)
	}
	against := func(way int) float64 {
		return measure.MedianOf(rounds, func(round [len(ways)]measure.Latency) float64 { return ratio(round[onGrown].P50, round[way].P50) })
	}
	return GrowthRow{
		Keys: keys, Clients: clients,
		Bare: of(bare), Small: of(onSmall), Call: of(onGrown),
		ToSmall: against(onSmall), ToBare: against(bare),
	}, nil
}
