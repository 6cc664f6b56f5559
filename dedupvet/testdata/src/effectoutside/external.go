package effectoutside

import (
	"context"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/tooldedup/dedup/external"
)

// Attempts and look-ups run outside the transaction; the functions beside them do not.
var pays = external.Tool[string, int]{
	Perform: func(ctx context.Context, a external.Attempt, in string) (int, error) {
		_, err := http.Post("https://example.com/"+in, "text/plain", nil)
		time.Sleep(time.Second)
		return 1, err
	},
	Find: func(ctx context.Context, a external.Attempt, in string) ([]int, error) {
		_, err := http.Get("https://example.com/" + in)
		return nil, err
	},
	Finish: func(ctx context.Context, tx pgx.Tx, in string, out int) error {
		if _, err := http.Get("https://example.com/" + in); err != nil { // want `http.Get in an effect`
			return err
		}
		return toldBeside(in)
	},
	Refused: func(ctx context.Context, tx pgx.Tx, in string, why error) error {
		time.Sleep(time.Second) // want `time.Sleep in an effect`
		return nil
	},
}

func toldBeside(text string) error {
	_, err := http.Get("https://example.com/" + text) // want `http.Get in toldBeside, which an effect calls`
	return err
}

func tools() (*external.Tools, error) {
	return external.New(nil, &external.Options{Enqueue: func(ctx context.Context, tx pgx.Tx, op external.Operation) error {
		_, err := http.Get("https://example.com/jobs") // want `http.Get in an effect`
		return err
	}})
}
