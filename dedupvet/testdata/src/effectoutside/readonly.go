package effectoutside

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup/tool"
)

// A tool that changes nothing may make requests: there is nothing to roll back.
var rate = tool.Tool[string, int]{Name: "rate", Class: tool.ReadOnly, Run: func(ctx context.Context, tx pgx.Tx, in string) (int, error) {
	if _, err := http.Get("https://example.com/rates"); err != nil {
		return 0, err
	}
	time.Sleep(time.Second) // want `time.Sleep in an effect: it holds the transaction`
	return 1, lookUp(in)
}}

func lookUp(text string) error {
	_, err := http.Get("https://example.com/" + text)
	return err
}

// A function that a writing tool calls too is checked, whichever tool comes first.
var (
	reads  = tool.Tool[string, int]{Name: "reads", Class: tool.ReadOnly, Run: readBoth}
	also   = tool.Tool[string, int]{Name: "also", Class: tool.ReadOnly, Run: both}
	writes = tool.Tool[string, int]{Name: "writes", Class: tool.Write, Run: both}
	none   = tool.Tool[string, int]{Name: "none", Run: unclassified}
)

func readBoth(ctx context.Context, tx pgx.Tx, in string) (int, error) { return both(ctx, tx, in) }

func both(ctx context.Context, tx pgx.Tx, in string) (int, error) {
	_, err := http.Get("https://example.com/" + in) // want `http.Get in an effect`
	return 1, deeper(err)
}

func deeper(err error) error {
	http.Get("https://example.com/failed") // want `http.Get in deeper, which an effect calls`
	return err
}

func unclassified(ctx context.Context, tx pgx.Tx, in string) (int, error) {
	_, err := http.Get("https://example.com/" + in) // want `http.Get in an effect`
	return 1, err
}
