package world_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup/internal/recording"
	"github.com/tooldedup/dedup/proof/internal/world"
	"github.com/tooldedup/dedup/proof/internal/world/kit"
	"github.com/tooldedup/dedup/tool"
)

// TestTools runs the scripts in testdata, one for each domain. Each scenario begins with the small recording. It has
// calls of tools, and below the line what each answers and all that it changes:
//
//	scenario
//	cancel_reservation {"reservation_id": "T5WD1C"}
//	----
//	stored
//	  reservations.T5WD1C.status = "cancelled"
//
// An answer that is "stored" is a document as it is stored now. Calls that begin with & are made at once; of them
// only the answers are listed, in the order of the alphabet. A line of sql is a statement, and lists what it returns.
// "given TOOL" sets arguments of the tool, which each call may override. With -rewrite the test writes down what it
// sees.
func TestTools(t *testing.T) {
	t.Parallel()
	for _, domain := range []string{"airline", "retail"} {
		t.Run(domain, func(t *testing.T) {
			t.Parallel()
			s := &script{pool: setup(t), domain: domain, given: map[string]string{}}
			datadriven.RunTest(t, filepath.Join("testdata", domain), s.run)
		})
	}
}

// script is a world in which a script is run.
type script struct {
	pool   *pgxpool.Pool
	domain string
	given  map[string]string // arguments, by tool
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	t.Helper()
	if d.Cmd == "given" {
		s.given[d.CmdArgs[0].Key] = d.Input
		return ""
	}
	require.Equal(t, "scenario", d.Cmd)
	require.NoError(t, world.Reset(t.Context(), s.pool, s.domain))
	var out, atOnce []string
	for _, line := range append(strings.Split(d.Input, "\n"), "") {
		if call, is := strings.CutPrefix(line, "& "); is {
			atOnce = append(atOnce, call)
			continue
		}
		out = append(out, s.together(t, atOnce)...)
		atOnce = nil
		if statement, is := strings.CutPrefix(line, "sql "); is {
			rows, err := s.pool.Query(t.Context(), statement)
			require.NoError(t, err)
			values, err := pgx.CollectRows(rows, pgx.RowTo[string])
			require.NoError(t, err)
			out = append(out, values...)
		} else if line != "" {
			out = append(out, s.one(t, line)...)
		}
	}
	return strings.Join(out, "\n")
}

// one makes a call, and returns its answer and what it changed.
func (s *script) one(t *testing.T, line string) []string {
	t.Helper()
	before, effects := s.state(t), s.effects(t)
	answer, ran := s.call(t.Context(), line)
	after := s.state(t)
	require.Equal(t, ran, s.effects(t)-effects, "%s: each write that ran to its end stands in the audit log", line)
	var all []string
	for table := range after {
		all = append(all, changes(table, decoded(t, before[table]), decoded(t, after[table]))...)
		for _, document := range after[table] {
			if string(document) == answer {
				answer = "stored"
			}
		}
	}
	if ran == 0 {
		require.Empty(t, all, "%s: %s", line, answer)
	}
	slices.Sort(all)
	return append([]string{answer}, all...)
}

// together makes calls at once, and returns their answers in the order of the alphabet. Of a document it is the id.
func (s *script) together(t *testing.T, calls []string) []string {
	t.Helper()
	answers, effects, all := make([]string, len(calls)), make([]int, len(calls)), s.effects(t)
	var group sync.WaitGroup
	for i, line := range calls {
		group.Go(func() { answers[i], effects[i] = s.call(t.Context(), line) })
	}
	group.Wait()
	for i, answer := range answers {
		var document struct {
			Reservation string `json:"reservation_id"`
			Order       string `json:"order_id"`
		}
		_ = json.Unmarshal([]byte(answer), &document) // a sentence is no document
		answers[i] = cmp.Or(document.Reservation, document.Order, answer)
		all += effects[i]
	}
	require.Equal(t, all, s.effects(t), "each write that ran to its end stands in the audit log")
	slices.Sort(answers)
	return answers
}

// call calls a tool in a transaction of its own. It returns the answer as text, and how many effects it must have
// had. A transaction in which the tool has refused is committed all the same: it must have changed nothing.
func (s *script) call(ctx context.Context, line string) (answer string, effects int) {
	name, own, _ := strings.Cut(line, " ")
	called := find(world.Tools()[s.domain], name)
	arguments := map[string]json.RawMessage{}
	var result json.RawMessage
	var refusal *kit.Refusal
	err := errors.Join(json.Unmarshal([]byte(cmp.Or(s.given[name], "{}")), &arguments), json.Unmarshal([]byte(own), &arguments))
	if err == nil {
		err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			args, err := json.Marshal(arguments)
			if err == nil {
				result, err = called.Run(ctx, tx, args)
			}
			if errors.As(err, &refusal) {
				return nil
			}
			return err
		})
	}
	switch {
	case err != nil:
		return "error: " + err.Error(), 0
	case refusal != nil:
		return "refused: " + refusal.Message, 0
	case called.Class == tool.ReadOnly:
		return string(result), 0
	}
	return string(result), 1
}

// state is all that the domain's tools can write but the audit log.
func (s *script) state(t *testing.T) (state recording.State) {
	t.Helper()
	err := s.pool.QueryRow(t.Context(), map[string]string{
		"airline": `
			SELECT json_build_object(
				'users', (SELECT json_object_agg(user_id, doc) FROM airline_users),
				'reservations', (SELECT json_object_agg(reservation_id, doc) FROM airline_reservations))`,
		"retail": `
			SELECT json_build_object(
				'users', (SELECT json_object_agg(user_id, doc) FROM retail_users),
				'orders', (SELECT json_object_agg(order_id, doc) FROM retail_orders))`,
	}[s.domain]).Scan(&state)
	require.NoError(t, err)
	return state
}

// effects is the length of the audit log.
func (s *script) effects(t *testing.T) (count int) {
	t.Helper()
	require.NoError(t, s.pool.QueryRow(t.Context(), `SELECT count(*) FROM effects`).Scan(&count))
	return count
}

// decoded is a value as [changes] takes it, with each number as it was written.
func decoded(t *testing.T, value any) (v any) {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&v))
	return v
}

// changes lists the values below a path that are others than before.
func changes(path string, before, after any) (all []string) {
	old, now := parts(before), parts(after)
	if old == nil || now == nil {
		if !reflect.DeepEqual(before, after) {
			all = append(all, stored(path, after))
		}
		return all
	}
	for name := range old {
		if _, is := now[name]; !is {
			all = append(all, "  "+path+"."+name+" is gone")
		}
	}
	for name, part := range now {
		if was, is := old[name]; is {
			all = append(all, changes(path+"."+name, was, part)...)
		} else {
			all = append(all, stored(path+"."+name, part))
		}
	}
	return all
}

func stored(path string, value any) string {
	text, _ := kit.Marshal(value) // it was decoded from JSON
	return "  " + path + " = " + string(text)
}

// parts are those of an object or a list, by name or place, nil for all else.
func parts(value any) map[string]any {
	switch value := value.(type) {
	case map[string]any:
		return value
	case []any:
		places := map[string]any{}
		for i, part := range value {
			places[strconv.Itoa(i)] = part
		}
		return places
	}
	return nil
}
