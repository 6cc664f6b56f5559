package upstream

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/pgtest"
)

// BenchmarkAllocations measures what pgx-pipeline-allocations.md reports.
func BenchmarkAllocations(b *testing.B) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.NewEmpty(b).URL)
	require.NoError(b, err)
	defer conn.Close(ctx)
	_, err = conn.Prepare(ctx, "s", `SELECT 1`)
	require.NoError(b, err)
	for _, n := range []int{1, 4, 10} {
		b.Run(fmt.Sprintf("Pipeline/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := sendPipeline(ctx, conn.PgConn(), n); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("SendBatch/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				batch := &pgx.Batch{}
				for range n {
					batch.Queue("s")
				}
				if err := conn.SendBatch(ctx, batch).Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// sendPipeline sends n statements and a Sync, and reads their results.
func sendPipeline(ctx context.Context, conn *pgconn.PgConn, n int) error {
	p := conn.StartPipeline(ctx)
	for range n {
		p.SendQueryPrepared("s", nil, nil, nil)
	}
	if err := p.Sync(); err != nil {
		return err
	}
	for range n {
		results, err := p.GetResults()
		if err != nil {
			return err
		}
		if _, err := results.(*pgconn.ResultReader).Close(); err != nil {
			return err
		}
	}
	if _, err := p.GetResults(); err != nil { // the Sync
		return err
	}
	return p.Close()
}
