package external_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
)

// parked makes a call of a tool without key and Find, and loses the reply to its first attempt.
func parked(f *fixture, key string, order int) (*external.Handle[in, out], *script) {
	f.t.Helper()
	s := &script{attempts: []answer{fails(errLost), is("ch_2")}}
	h := add(f, ledger(s.tool(external.Tool[in, out]{})))
	_, err := h.Do(f.ctx, call(key), in{order})
	require.ErrorAs(f.t, err, new(*external.ParkedError))
	return h, s
}

// audited returns the audit's lines about a key, the oldest first.
func (f *fixture) audited(key string) (lines []string) {
	f.t.Helper()
	rows, err := f.pool.Query(f.ctx, `SELECT concat_ws(' ', a.actor, a.action, a.scope, a.tool, a.outcome, a.reason, a.created_at = e.created_at, a.role = session_user)
		FROM tool_dedup_audit AS a JOIN tool_effect AS e USING (scope, tool, key) WHERE key = $1 ORDER BY a.at`, key)
	require.NoError(f.t, err)
	lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(f.t, err)
	return lines
}

// TestVerdicts has two operators give a verdict in a process that lacks the tool. The second
// verdict is refused, with the first one's actor and time, unless it overrules. A process with the
// tool carries out the stored one. Without a second verdict, the process that stores the first has
// the tool.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	shared.makeLedger()
	verdicts := map[string]external.Verdict{
		"happened": external.Happened(out{"ch_9"}, "in the books"),
		"never":    external.Never("not in the books"),
		"refuse":   external.Refuse("not in the books"),
	}
	order := 0
	for first, verdict := range verdicts {
		for _, second := range []string{"happened", "never", "refuse", ""} {
			order++
			order := order
			key := first + "/" + second
			t.Run(key, func(t *testing.T) {
				t.Parallel()
				f, command := process(t, shared.pool), process(t, shared.pool)
				var alerted int64
				f.steps.stopAt(func(data external.Event) {
					if data.Kind == external.EventParked {
						alerted = data.Fence
					}
				})
				h, s := parked(f, key, order)
				seen, last, by := f.lookup(key), first, command
				require.Equal(t, seen.Fence, alerted, "an operator may copy it from the alert")
				if second == "" {
					by = f
				}
				stale := seen
				stale.Fence--
				require.ErrorIs(t, by.tools.Resolve(f.ctx, stale, verdict.By("eve")), dedup.ErrInFlight, "somebody has acted since it was read")
				require.NoError(t, by.tools.Resolve(f.ctx, seen, verdict.By("ada\x00")))
				reason := map[bool]string{true: "in the books", false: "not in the books"}[first == "happened"]
				require.Equal(t, []string{"ada " + first + " acme charge parked " + reason + " t t"}, f.audited(key))
				if second != "" {
					last = second
					stored := f.lookup(key)
					require.Equal(t, first, stored.Verdict)
					require.Equal(t, map[bool]external.State{true: external.StatePending, false: external.StateParked}[first == "never"], stored.State)
					for _, as := range []external.Operation{seen, stored} { // as each operator has read it
						var decided *external.VerdictError
						require.ErrorAs(t, command.tools.Resolve(f.ctx, as, verdicts[second].By("bob")), &decided)
						require.Equal(t, first, decided.Operation.Verdict)
						require.ErrorContains(t, decided, first+" (ada: ")
						require.ErrorContains(t, decided, stored.ChangedAt.UTC().Format("2006-01-02T15:04:05Z"))
					}
					require.Equal(t, stored.Fence, f.lookup(key).Fence, "nothing is stored")
					require.NoError(t, command.tools.Resolve(f.ctx, stored, verdicts[second].By("bob").Overruling()))
					require.Equal(t, second, f.lookup(key).Verdict)
					require.Contains(t, f.audited(key)[1], "bob "+second+" ")
					require.Contains(t, f.audited(key)[1], "overrules "+first+": ada: ")
					require.Len(t, s.keys, 1)
					f.advance(key)
				}
				op := f.lookup(key)
				require.Equal(t, external.StateDone, op.State)
				require.Empty(t, op.Verdict)
				require.ErrorIs(t, command.tools.Resolve(f.ctx, op, verdicts[first].Overruling()), dedup.ErrInvalid, "an answer stays")
				require.ErrorIs(t, command.tools.Resolve(f.ctx, seen, verdicts[first].Overruling()), dedup.ErrInFlight, "it has changed since it was read")

				result, err := h.Do(f.ctx, call(key), in{order})
				require.Equal(t, map[string]string{"happened": "ch_9", "never": "ch_2"}[last], result.Value.ID)
				require.Equal(t, result.Value.ID, op.Ref)
				entry := "finish " + result.Value.ID
				if last == "refuse" {
					entry = "refused not in the books"
					var refused *dedup.RefusedError
					require.ErrorAs(t, err, &refused)
					require.Equal(t, "not in the books", refused.Message)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, []string{entry}, f.ledger(order))
				require.Len(t, s.keys, map[bool]int{true: 2, false: 1}[last == "never"])
				require.Equal(t, s.keys[0], s.keys[len(s.keys)-1], "the provider's key is the call's")
			})
		}
	}
}

// TestOverruledWhileCarriedOut overrules a verdict after a process has taken the operation to
// record it. It is not recorded.
func TestOverruledWhileCarriedOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.makeLedger()
	_, s := parked(f, "k", 1)
	command := process(t, f.pool)
	require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), external.Happened(out{"ch_wrong"}, "in other books")))
	overruled := false
	f.steps.stopAt(func(data external.Event) {
		if data.Kind == external.EventRecording && !overruled {
			overruled = true
			require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), external.Refuse("not in ours").Overruling()))
		}
	})
	op := f.advance("k")
	require.Equal(t, "refuse", op.Verdict)
	op = f.advance("k")
	require.Equal(t, external.StateDone, op.State)
	require.Equal(t, []string{"refused not in ours"}, f.ledger(1))
	require.Len(t, s.keys, 1)
}

// TestVerdictOnWhatIsNotParked resolves a pending operation, which cancels it, and a running one
// without an answer. While an attempt may send, the running one cannot be resolved.
func TestVerdictOnWhatIsNotParked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := &script{attempts: []answer{is("ch_1")}}
	cancelled := add(f, s.tool(external.Tool[in, out]{}))
	accept(f, cancelled, "k", 1)
	require.NoError(t, f.tools.Resolve(f.ctx, f.lookup("k"), external.Refuse("cancelled")))
	_, err := cancelled.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrRefused)
	require.Empty(t, s.keys)

	other := process(t, f.pool)
	h := add(other, external.Tool[in, out]{
		Perform: func(context.Context, external.Attempt, in) (out, error) {
			require.ErrorIs(t, f.tools.Resolve(f.ctx, f.lookup("running"), external.Refuse("too early")), dedup.ErrInFlight)
			return out{}, errLost
		},
		Find: func(context.Context, external.Attempt, in) ([]out, error) { return nil, errors.New("403") },
	})
	_, err = h.Do(f.ctx, impatient("running"), in{1})
	require.ErrorIs(t, err, dedup.ErrInFlight)
	op := f.lookup("running")
	require.Equal(t, external.StateRunning, op.State)
	require.NoError(t, process(t, f.pool).tools.Resolve(f.ctx, op, external.Happened(out{"ch_1"}, "in the books")))
	result, err := h.Do(f.ctx, call("running"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_1", result.Value.ID)
}

// TestVerdictsThatAreNone gives invalid verdicts; nothing is stored. A result that no call could
// read is refused if the tool is registered, and otherwise found by the process that would record
// it.
func TestVerdictsThatAreNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.makeLedger()
	h, _ := parked(f, "k", 1)
	op := f.lookup("k")
	for name, v := range map[string]external.Verdict{
		"Empty": {}, "NoReason": external.Never(""), "NoJSON": external.Happened(func() {}, "seen"),
	} {
		require.ErrorIs(t, f.tools.Resolve(f.ctx, op, v), dedup.ErrInvalid, name)
	}
	require.ErrorIs(t, f.tools.Resolve(f.ctx, f.lookup("other"), external.Never("x")), dedup.ErrInvalid)
	require.Equal(t, op.Fence, f.lookup("k").Fence)

	command := process(t, f.pool)
	for _, text := range []string{`{"id":5}`, `{"message_id":"ch_9"}`, `{"id":"ch_9","more":1}`, `{}`, `{"id":""}`, `null`, `"ch_9"`} {
		wrong := external.Happened(json.RawMessage(text), "seen")
		require.ErrorIs(t, f.tools.Resolve(f.ctx, f.lookup("k"), wrong), dedup.ErrInvalid, text)
		require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), wrong))
		_, err := h.Do(f.ctx, call("k"), in{1})
		require.Error(t, err, text)
		require.Equal(t, external.StateParked, f.lookup("k").State, text)
		require.Contains(t, f.lookup("k").Note, "cannot be recorded")
	}
	require.NoError(t, command.tools.Resolve(f.ctx, f.lookup("k"), external.Happened(json.RawMessage(` {"ID":"ch_9"}`), "seen")))
	result, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_9", result.Value.ID)
	record, err := f.d.Lookup(f.ctx, "acme", "charge", "k")
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"ch_9"}`, string(record.Result), "as the tool itself writes it")
}

// TestVerdictWithoutRef gives a null result for a pointer type. It has no ref.
func TestVerdictWithoutRef(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	h, err := external.Add(f.tools, external.Tool[in, *out]{
		Name: "charge", KeyKept: external.Forever, Ref: func(o *out) string { return o.ID },
		Perform: func(context.Context, external.Attempt, in) (*out, error) { return nil, external.ErrExists },
	})
	require.NoError(t, err)
	_, err = h.Do(f.ctx, call("k"), in{1})
	op := f.parkedBy(err, "already")
	for _, text := range []string{`null`, `{"id":""}`} {
		require.ErrorIs(t, f.tools.Resolve(f.ctx, op, external.Happened(json.RawMessage(text), "seen")), dedup.ErrInvalid, text)
	}
	require.NoError(t, f.tools.Resolve(f.ctx, op, external.Happened(&out{"ch_9"}, "seen")))
	require.Equal(t, "ch_9", f.lookup("k").Ref)
}

// TestVerdictWithoutAudit resolves without the audit's table, which works, and without the
// privilege to write to it, which is refused.
func TestVerdictWithoutAudit(t *testing.T) {
	t.Parallel()

	f := newFixture(t)
	f.makeLedger()
	parked(f, "k", 1)
	role := pgx.Identifier{"auditor_" + f.lookup("k").ProviderKey}.Sanitize()
	exec := func(sql string) {
		t.Helper()
		_, err := f.pool.Exec(context.WithoutCancel(f.ctx), sql, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	exec(`CREATE ROLE ` + role)
	t.Cleanup(func() { exec(`DROP OWNED BY ` + role + `; DROP ROLE ` + role) })
	exec(`GRANT USAGE ON SCHEMA public TO ` + role + `; GRANT SELECT, INSERT, UPDATE, DELETE ON tool_dedup, tool_effect TO ` + role)
	command := process(t, connect(t, f.pool.Config().ConnString(), func(c *pgxpool.Config) {
		c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, `SET ROLE `+role)
			return err
		}
	}))
	op := f.lookup("k")
	err := command.tools.Resolve(f.ctx, op, external.Never("not seen"))
	require.ErrorContains(t, err, "the role needs INSERT on tool_dedup_audit")
	require.Equal(t, op.Fence, f.lookup("k").Fence, "nothing is stored")

	exec(`DROP TABLE tool_dedup_audit`)
	require.NoError(t, command.tools.Resolve(f.ctx, op, external.Never("not seen")))
	require.Equal(t, external.StatePending, f.lookup("k").State)
}

// TestWindowCountsFromTheFirstUse has a provider that counts its keys' life from their first use.
// Neither an attempt without an effect nor a verdict starts it anew.
func TestWindowCountsFromTheFirstUse(t *testing.T) {
	t.Parallel()
	shared := newFixture(t)
	const kept = 100 * lease
	for name, first := range map[string]error{"NotDone": errBusy, "Never": errLost} {
		f, s := process(t, shared.pool), &script{attempts: []answer{fails(first), fails(errLost)}} // the second one took effect
		h := add(f, s.tool(external.Tool[in, out]{KeyKept: kept, Timeout: lease}))
		_, err := h.Do(f.ctx, impatient(name), in{1})
		require.ErrorIs(t, err, dedup.ErrInFlight)
		f.elapse(name, kept)
		if name == "Never" {
			require.Equal(t, external.StateParked, f.advance(name).State)
			require.NoError(t, process(t, f.pool).tools.Resolve(f.ctx, f.lookup(name), external.Never("not in the books")))
		}
		op := f.advance(name)
		sent, _ := s.count()
		require.Equal(t, 2, sent)
		require.Equal(t, external.StateParked, op.State, "the provider may have forgotten the key")
		require.Greater(t, op.Now.Sub(op.SentAt), kept)
	}
}
