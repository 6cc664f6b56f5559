package dedup_test

import (
	"context"
	"log"
	"log/slog"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tooldedup/dedup"
)

// SlogTracer writes what happens to calls to a logger. Alert on the rate of
// tool_call_deduplicated, and look at what is logged at Warn or above.
func ExampleNewSlogTracer() {
	ctx := context.Background()
	pool, done := exampleDatabase()
	defer done()

	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Value.Kind() == slog.KindTime || strings.HasSuffix(attr.Key, "_seconds") {
				return slog.Attr{} // different in each run
			}
			return attr
		},
	}))
	d, err := dedup.New(pool, &dedup.Options{Tracer: dedup.NewSlogTracer(logger, nil)})
	if err != nil {
		log.Fatal(err)
	}

	for _, cents := range []int{500, 500, 700} {
		_, _ = dedup.Do(ctx, d, dedup.Call{
			Scope: "acme", Tool: "refund", Key: "order-117", Args: map[string]int{"cents": cents},
		}, func(ctx context.Context, tx pgx.Tx) (string, error) { return "refunded", nil })
	}
	if _, err := d.Reset(ctx, "acme", "refund", "order-117", "refunded by hand"); err != nil {
		log.Fatal(err)
	}

	// Output:
	// level=DEBUG msg=tool_call_executed tool=refund scope=acme key_hash=d860c2f71020f5e9 attempts=1 refused=false
	// level=INFO msg=tool_call_deduplicated tool=refund scope=acme key_hash=d860c2f71020f5e9 recovered=false refused=false
	// level=WARN msg=tool_call_key_reused tool=refund scope=acme key_hash=d860c2f71020f5e9 changed=[cents]
	// level=WARN msg=tool_call_reset tool=refund scope=acme key_hash=d860c2f71020f5e9 reason="refunded by hand" freed=true
}
