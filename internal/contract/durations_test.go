package contract_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/httpdedup"
	tools "github.com/tooldedup/dedup/tool"
)

// durations are those at which something may overflow, or mean something else.
var durations = []time.Duration{
	math.MinInt64, math.MinInt64 + 1, -time.Hour, -1, 1, time.Microsecond, time.Millisecond - 1, time.Millisecond, time.Second,
	24 * time.Hour, math.MaxInt32 * time.Millisecond, 100 * 365 * 24 * time.Hour, 200 * 365 * 24 * time.Hour, math.MaxInt64 - 1, math.MaxInt64,
}

// eachDuration calls do for every duration field of a struct and of the structs in it, set to each
// of the durations.
func eachDuration[T any](zero T, do func(name string, value T)) {
	for _, path := range durationFields(reflect.TypeFor[T](), nil) {
		for _, d := range durations {
			value := zero
			reflect.ValueOf(&value).Elem().FieldByIndex(path).SetInt(int64(d))
			do(fmt.Sprint(reflect.TypeFor[T]().FieldByIndex(path).Name, "=", int64(d)), value)
		}
	}
}

func durationFields(of reflect.Type, at []int) (paths [][]int) {
	for i := range of.NumField() {
		field, path := of.Field(i), append(slices.Clone(at), i)
		switch {
		case field.Type == reflect.TypeFor[time.Duration]():
			paths = append(paths, path)
		case field.Type.Kind() == reflect.Struct && field.IsExported():
			paths = append(paths, durationFields(field.Type, path)...)
		}
	}
	return paths
}

// requireSane requires an answer that makes sense whatever a call's durations are.
func requireSane[R any](t *testing.T, ctx context.Context, name string, result dedup.Result[R], err error) {
	t.Helper()
	require.NoError(t, ctx.Err(), name)
	require.GreaterOrEqual(t, result.Waited, time.Duration(0), name)
	require.Less(t, result.Waited, limit, name)
	if err == nil {
		return
	}
	for _, typed := range []error{dedup.ErrInvalid, dedup.ErrExpired, dedup.ErrOutcomeUnknown, dedup.ErrAttemptsExhausted, dedup.ErrRestartTx} {
		if errors.Is(err, typed) {
			return
		}
	}
	require.NoError(t, err, name)
}

// everyWay makes first calls and replays in every way, and looks.
func everyWay(t *testing.T, ctx context.Context, pool *pgxpool.Pool, d *dedup.Deduper, name string, like dedup.Call) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, limit/3)
	defer cancel()
	of := func(key string) dedup.Call {
		c := like
		c.Scope, c.Tool, c.Key = "acme", "create_ticket", name+" "+key
		return c
	}
	insert := dedup.SQL(`INSERT INTO effects (ref) VALUES ('ran') RETURNING 7 AS id, ref AS title`)
	for range 2 {
		result, err := dedup.Do(ctx, d, of("do"), effect("ran"))
		requireSane(t, ctx, name, result, err)
		result, err = dedup.DoStatement[ticket](ctx, d, of("statement"), insert)
		requireSane(t, ctx, name, result, err)
		require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			result, err := dedup.DoTx(ctx, d, tx, of("tx"), effect("ran"))
			requireSane(t, ctx, name, result, err)
			return nil
		}), name)
		both := []dedup.StatementCall{{Call: of("a"), Statement: insert}, {Call: of("b"), Statement: insert}}
		for out := range dedup.DoBatch[ticket](ctx, d, slices.Values(both), nil) {
			requireSane(t, ctx, name, out.Result, out.Err)
		}
		_, err = d.Lookup(ctx, "acme", "create_ticket", of("do").Key)
		require.NoError(t, err, name)
	}
	for _, count := range d.Stats().Calls {
		require.GreaterOrEqual(t, count.Waited, time.Duration(0), name)
		require.GreaterOrEqual(t, count.Duration, time.Duration(0), name)
	}
}

// TestDurations sets every duration option, one at a time, to the smallest and the largest values.
// The option is refused, or it works as documented.
func TestDurations(t *testing.T) {
	t.Parallel()

	t.Run("Options", func(t *testing.T) {
		t.Parallel()
		for _, order := range []orderKind{lockFirst, claimFirst} {
			ctx, f := profile{order: order, isolation: pgx.ReadCommitted}.setup(t, nil)
			eachDuration(dedup.Options{}, func(name string, opts dedup.Options) {
				d, err := dedup.New(f.pool, &opts)
				if err != nil {
					require.ErrorIs(t, err, dedup.ErrInvalid, name)
					return
				}
				everyWay(t, ctx, f.pool, d, name, dedup.Call{})
			})
		}
	})

	for _, engine := range []engine{0, onPlayedCitus} {
		t.Run(fmt.Sprint("Call", engine), func(t *testing.T) {
			t.Parallel()
			ctx, f := profile{engine: engine, isolation: pgx.ReadCommitted}.setup(t, nil)
			eachDuration(dedup.Call{}, func(name string, c dedup.Call) { everyWay(t, ctx, f.pool, f.d, name, c) })
		})
	}

	t.Run("Sweeper", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		eachDuration(dedup.SweeperOptions{}, func(name string, opts dedup.SweeperOptions) {
			s, err := dedup.NewSweeper(f.d, &opts)
			if err != nil {
				require.ErrorIs(t, err, dedup.ErrInvalid, name)
				return
			}
			before := len(events[dedup.SweptData](f.events))
			running, cancel := context.WithCancel(ctx)
			ended := make(chan error, 1)
			go func() { ended <- s.Run(running) }()
			require.NoError(t, f.events.until(ctx, func(all []any) bool { return len(ofType[dedup.SweptData](all)) > before }))
			cancel()
			require.ErrorIs(t, receive(t, ctx, ended), context.Canceled, name)
		})
	})

	t.Run("External", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		do := func(name string, opts *external.Options, tool external.Tool[ticket, ticket], wait time.Duration) {
			tools, err := external.New(f.d, opts)
			if err != nil {
				require.ErrorIs(t, err, dedup.ErrInvalid, name)
				return
			}
			tool.Name = "pay"
			tool.Ref = func(ticket) string { return "ref" }
			tool.Find = func(context.Context, external.Attempt, ticket) ([]ticket, error) { return []ticket{{ID: 1}}, nil }
			lost := errors.New("the answer is lost")
			tool.Perform = func(_ context.Context, a external.Attempt, in ticket) (ticket, error) {
				if in.ID == 0 {
					return ticket{ID: 1}, nil
				}
				return ticket{}, lost
			}
			handle, err := external.Add(tools, tool)
			if err != nil {
				require.ErrorIs(t, err, dedup.ErrInvalid, name)
				return
			}
			for range 2 {
				result, err := handle.Do(ctx, dedup.Call{Scope: "acme", Key: name, MaxWait: wait}, ticket{})
				if !errors.Is(err, dedup.ErrInFlight) { // of a short MaxWait, or a short Timeout
					requireSane(t, ctx, name, result, err)
				}
				require.GreaterOrEqual(t, result.Waited, time.Duration(0))
			}
			// An attempt whose answer is lost is put off, by what these durations say.
			_, err = handle.Do(ctx, dedup.Call{Scope: "acme", Key: name + " lost", MaxWait: -1}, ticket{ID: 1})
			require.ErrorIs(t, err, dedup.ErrInFlight, name)
			status, err := tools.Status(ctx, "acme", "pay", name+" lost")
			require.NoError(t, err, name)
			op := status.Operation
			require.False(t, op.Due.Before(op.CreatedAt) && !op.Due.IsZero(), name)
			require.NoError(t, tools.Close(ctx), name)
		}
		eachDuration(external.Options{}, func(name string, opts external.Options) { do(name, &opts, external.Tool[ticket, ticket]{}, 0) })
		eachDuration(external.Tool[ticket, ticket]{}, func(name string, tool external.Tool[ticket, ticket]) {
			wait := time.Duration(0)
			if 0 < tool.Timeout && tool.Timeout < time.Second {
				wait = -1
			}
			do(name, nil, tool, wait)
		})
		for _, wait := range durations {
			do(fmt.Sprint("MaxWait=", int64(wait)), nil, external.Tool[ticket, ticket]{}, wait)
		}
	})

	t.Run("Tools", func(t *testing.T) {
		t.Parallel()
		ctx, f := plain.setup(t, nil)
		zero := tools.Tool[ticket, ticket]{
			Name: "create_ticket", Class: tools.Write,
			Run: func(_ context.Context, _ pgx.Tx, in ticket) (ticket, error) { return in, nil },
		}
		eachDuration(zero, func(name string, of tools.Tool[ticket, ticket]) {
			registry := tools.NewRegistry(f.d, nil)
			if registry.Add(of) != nil { // it is a problem of the tool
				return
			}
			for i := range 2 {
				_, err := registry.Invoke(ctx, tools.Invocation{Scope: "acme", Tool: of.Name, Key: fmt.Sprint(name, i), Args: []byte(`{"id": 1, "title": "x"}`)})
				requireSane(t, ctx, name, dedup.Result[ticket]{}, err)
				_, err = registry.Invoke(ctx, tools.Invocation{
					Scope: "acme", Tool: of.Name, Key: fmt.Sprint(name, "of the call", i), Args: []byte(`{"id": 1, "title": "x"}`), MaxWait: of.MaxWait,
				})
				requireSane(t, ctx, name, dedup.Result[ticket]{}, err)
			}
		})
	})

	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		_, f := plain.setup(t, nil)
		eachDuration(httpdedup.Options{Scope: func(*http.Request) (string, error) { return "acme", nil }}, func(name string, opts httpdedup.Options) {
			if _, err := httpdedup.New(f.d, opts); err != nil {
				require.ErrorIs(t, err, dedup.ErrInvalid, name)
			}
		})
	})
}

// TestEveryDurationIsTried: a new field is tried too, or is one that the library tells.
func TestEveryDurationIsTried(t *testing.T) {
	t.Parallel()
	var found []string
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		if entry.IsDir() && (name == "internal" || name == "cmd" || name == "proof" || name == "bench" || name == "examples" || name == "testdata" || strings.HasPrefix(name, ".") && name != "..") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					if of, ok := field.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Duration" {
						for _, name := range field.Names {
							if name.IsExported() {
								found = append(found, file.Name.Name+"."+spec.Name.Name+"."+name.Name)
							}
						}
					}
				}
			}
			return true
		})
		return nil
	}))
	require.ElementsMatch(t, []string{
		// TestDurations
		"dedup.Call.MaxWait", "dedup.Options.CommitTimeout", "dedup.Options.IdleTimeout", "dedup.Options.MaxWait",
		"dedup.Retention.Result", "dedup.Retention.Tombstone", "dedup.RetryPolicy.BaseDelay", "dedup.RetryPolicy.MaxDelay", "dedup.SweeperOptions.Interval",
		"external.Options.Lease", "external.Tool.KeyKept", "external.Tool.Settles", "external.Tool.Timeout",
		"httpdedup.Options.MaxWait", "httpdedup.Options.RetryAfter",
		// the minimum age of a listed operation; any duration is valid
		"external.List.OlderThan",
		"tool.Invocation.MaxWait", "tool.Tool.MaxWait",
		// handed on as external's
		"deduptest.Effect.Lease", "tool.ExternalTool.MaxWait",
		// TestOptionsAreRefused of mcpdedup, and handed on as dedup.Call.MaxWait
		"mcpdedup.Options.RetryAfter", "mcpdedup.Policy.MaxWait",
		// the suite that grpcdedup and connectdedup share, and handed on as dedup.Call.MaxWait
		"grpcdedup.Options.RetryAfter", "grpcdedup.Options.MaxWait", "connectdedup.Options.RetryAfter", "connectdedup.Options.MaxWait",
		// TestPauseBounds of runner
		"runner.Call.Pause", "runner.StatusError.RetryAfter",
		// refused beyond an hour, or only added to a time
		"deduptest.Options.Patience", "deduptest.Provider.ActsLate", "deduptest.Provider.KeyKept", "deduptest.Provider.SeesLate",
		// told by the library
		"dedup.BatchData.Duration", "dedup.CallEndData.Age", "dedup.CallEndData.Duration", "dedup.CallEndData.Waited", "dedup.CallStats.Duration", "dedup.CallStats.Waited",
		"dedup.Result.Waited", "dedup.RetriedData.Delay", "dedup.SweptData.Duration", "deduptest.ScenarioReport.Took",
	}, found)
}
