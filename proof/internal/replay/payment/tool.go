package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/proof/internal/lab"
	"github.com/tooldedup/dedup/proof/internal/replay/ledger"
)

// In is the stored argument of a call.
type In struct {
	// Ref names the call in the ledger and at the provider.
	Ref  string          `json:"ref"`
	Args json.RawMessage `json:"args"`
}

// Out is the recorded result: the provider's id and the tool's answer.
type Out struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Tool is a tool that pays. It looks its answer up before it pays, and writes its row of the ledger
// with the record.
type Tool struct {
	Name string
	Kind Kind
	Pool *pgxpool.Pool
	// URL is the provider's URL. Worker is the name by which the provider can have this process
	// killed.
	URL, Worker string
}

// External returns the tool for package external.
func (t *Tool) External() external.Tool[In, Out] {
	x := external.Tool[In, Out]{
		Name: t.Name, Perform: t.perform, Ref: func(out Out) string { return out.ID },
		KeyKept: t.Kind.keyKept(), Timeout: timeout, Finish: t.finish,
		Refused: func(ctx context.Context, tx pgx.Tx, in In, _ error) error { return note(ctx, tx, in.Ref, refused) },
	}
	if t.Kind == LookUpSettles {
		x.Settles = settles
	}
	if t.Kind == LookUpSettles || t.Kind == LookUp {
		x.Find = t.find
	}
	return x
}

func (t *Tool) perform(ctx context.Context, a external.Attempt, in In) (out Out, err error) {
	out.Text, err = Preview(ctx, t.Pool, in.Ref)
	if errors.As(err, new(*ledger.Refusal)) {
		return out, err
	}
	if err != nil {
		return out, external.NotDone(err)
	}
	key := a.Key
	if t.Kind != Keys {
		key = ""
	}
	err = t.ask(ctx, http.MethodPost, key, in.Ref, &out.ID)
	return out, err
}

func (t *Tool) find(ctx context.Context, _ external.Attempt, in In) (outs []Out, err error) {
	var ids []string
	if err = t.ask(ctx, http.MethodGet, "", in.Ref, &ids); err != nil || len(ids) == 0 {
		return nil, err
	}
	text, err := Preview(ctx, t.Pool, in.Ref)
	for _, id := range ids {
		outs = append(outs, Out{id, text})
	}
	return outs, err
}

// finish writes the row of the ledger, with the record.
func (t *Tool) finish(ctx context.Context, tx pgx.Tx, in In, _ Out) error {
	if _, err := ledger.Enter(ledger.WithRef(ctx, in.Ref), tx); err != nil {
		return dedup.NotFinal(err)
	}
	return note(ctx, tx, in.Ref, finished)
}

// Preview returns the recorded answer of a call.
func Preview(ctx context.Context, pool *pgxpool.Pool, ref string) (text string, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		text, err = ledger.Look(ledger.WithRef(ctx, ref), tx)
		return err
	})
	return text, err
}

// Headers of a request to the provider.
const (
	keyHeader    = "Idempotency-Key"
	workerHeader = "Worker"
	sentHeader   = "Sent"
)

// ask posts a payment and returns its id, or gets the ids of all payments of a call.
func (t *Tool) ask(ctx context.Context, method, key, ref string, answer any) error {
	header := http.Header{keyHeader: {key}, workerHeader: {t.Worker}, sentHeader: {time.Now().Format(time.RFC3339Nano)}}
	client := &http.Client{Transport: &external.Transport{}}
	res, text, err := lab.Ask(ctx, client, method, t.URL+"?ref="+url.QueryEscape(ref), header, nil)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return errors.New(res.Status)
	}
	return json.Unmarshal(text, answer)
}

// The notes of a recorded success and of a recorded refusal.
const finished, refused = "finished", "refused"

// CreateNotes makes the table of notes. None of its columns is unique.
func CreateNotes(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, `CREATE TABLE payment_notes (ref text NOT NULL, kind text NOT NULL)`); err != nil {
		return fmt.Errorf("creating the table of notes: %w", err)
	}
	return nil
}

func note(ctx context.Context, tx pgx.Tx, ref, kind string) error {
	_, err := tx.Exec(ctx, `INSERT INTO payment_notes (ref, kind) VALUES ($1, $2)`, ref, kind)
	return err
}

// Noted reports whether an answered call has exactly one note, of its record.
func Noted(ctx context.Context, pool *pgxpool.Pool, ref string, refusal bool) (right bool, err error) {
	want := []string{finished}
	if refusal {
		want[0] = refused
	}
	err = pool.QueryRow(ctx, `
		SELECT COALESCE(array_agg(kind), '{}') = $2::text[]
		FROM payment_notes
		WHERE ref = $1`, ref, want).Scan(&right)
	if err != nil {
		return false, fmt.Errorf("reading notes: %w", err)
	}
	return right, nil
}
