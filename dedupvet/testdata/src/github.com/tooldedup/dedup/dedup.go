// Package dedup stands in for the library, as far as the cases use it.
package dedup

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type Deduper struct{}

type Options struct{}

func New(pool *pgxpool.Pool, opts *Options) (*Deduper, error) { return nil, nil }

type Call struct {
	Scope, Tool, Key string
	Args             any
}

type Result[R any] struct {
	Value    R
	Replayed bool
}

type Effect[R any] func(ctx context.Context, tx pgx.Tx) (R, error)

func Do[R any](ctx context.Context, d *Deduper, call Call, effect Effect[R]) (Result[R], error) {
	return Result[R]{}, nil
}

func DoTx[R any](ctx context.Context, d *Deduper, tx pgx.Tx, call Call, effect Effect[R]) (Result[R], error) {
	return Result[R]{}, nil
}

type Statement struct{}

func SQL(sql string, args ...any) Statement { return Statement{} }

type StatementCall struct {
	Call      Call
	Statement Statement
}

func DoStatement[R any](ctx context.Context, d *Deduper, call Call, stmt Statement) (Result[R], error) {
	return Result[R]{}, nil
}

func NewKey() string                                                          { return "" }
func KeyFromIntent(parts ...string) (string, error)                           { return "", nil }
func KeyFromToolCall(session string, turn int, callID string) (string, error) { return "", nil }
func KeyFromToolCallArgs(session string, turn int, tool string, args any, repeat int) (string, error) {
	return "", nil
}
func KeyFromArgsMergingRepeats(session string, args any) (string, error) { return "", nil }
func TimedKey(at time.Time, key string) (string, error)                  { return "", nil }
func Final(err error) error                                              { return err }

type Fingerprint [32]byte

func FingerprintOf(args any) (Fingerprint, error) { return Fingerprint{}, nil }
func IsRetryable(err error) bool                  { return false }

type SweptRecord struct{ Key string }

type SweepOptions struct {
	Archive func(ctx context.Context, tx pgx.Tx, batch []SweptRecord) error
}

func (d *Deduper) Sweep(ctx context.Context, opts *SweepOptions) error { return nil }
