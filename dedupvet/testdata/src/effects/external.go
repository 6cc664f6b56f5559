package effects

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup/external"
)

// The functions of an external tool that get a transaction are effects. Attempts and look-ups have
// none.
var sends = external.Tool[string, int]{
	Perform: func(ctx context.Context, a external.Attempt, in string) (int, error) { return attempted(), nil },
	Find:    func(ctx context.Context, a external.Attempt, in string) ([]int, error) { return nil, nil },
	Finish:  func(ctx context.Context, tx pgx.Tx, in string, out int) error { return ended() }, // want "effect"
	Refused: func(ctx context.Context, tx pgx.Tx, in string, why error) error { return nil },   // want "effect"
}

var enqueues = &external.Options{Enqueue: func(ctx context.Context, tx pgx.Tx, op external.Operation) error { return nil }} // want "effect"

func attempted() int { return 1 }

func ended() error { return nil } // want "helper"
