package external_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/tooldedup/dedup"
	"github.com/tooldedup/dedup/external"
	"github.com/tooldedup/dedup/internal/faultproxy"
)

// TestCloseBehindAClaim closes a process while its claim is on its way. The claimed operation is
// attempted by another process, and not parked.
func TestCloseBehindAClaim(t *testing.T) {
	t.Parallel()
	f, proxy := proxied(t, nil)
	tool := external.Tool[in, out]{Perform: answering("ch_1")}
	h := add(f, tool)
	closes := sync.OnceFunc(func() { require.NoError(t, f.tools.Close(f.ctx)) })
	proxy.Arm(faultproxy.Fault{Kind: faultproxy.Hold, Where: func(u faultproxy.Unit) bool {
		if claiming(u) {
			closes()
		}
		return false
	}})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.ErrorIs(t, err, dedup.ErrInvalid)
	result, err := add(process(t, f.pool), tool).Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	require.Equal(t, "ch_1", result.Value.ID)
}

// TestRollbackIsUnanswered loses the reply to the ROLLBACK of a claim that inserts nothing. On
// Citus this is a trip of its own. The call returns after its context ends, and keeps no connection.
func TestRollbackIsUnanswered(t *testing.T) {
	t.Parallel()
	f, proxy := proxied(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	playCitus(f)
	h := add(f, external.Tool[in, out]{Perform: answering("ch_1")})
	_, err := h.Do(f.ctx, call("k"), in{1})
	require.NoError(t, err)
	limit, cancel := context.WithTimeout(f.ctx, time.Minute)
	defer cancel()
	rollback := proxy.Arm(faultproxy.Fault{Kind: faultproxy.Blackhole, Where: faultproxy.AtSQL("rollback")})
	ctx, leave := context.WithCancel(limit)
	var result dedup.Result[out]
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		result, err = h.Do(ctx, call("k"), in{1})
	}()
	require.NoError(t, rollback.Wait(limit))
	leave()
	select {
	case <-returned:
	case <-limit.Done():
		proxy.CutAll()
		<-returned
		require.FailNow(t, "the call waits for the reply")
	}
	require.NoError(t, err) // the claim had read the answer
	require.True(t, result.Replayed)
	require.NoError(t, f.pool.Ping(limit))
}

// TestTableRefuses has a table of operations that fails or ignores changes. A call ends with an
// error and does not retry for ever.
func TestTableRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempts []answer
		refuses  func(f *fixture, h *external.Handle[in, out])
		is       error
		says     string
		sent     int
	}{
		// Nothing is sent if the claim cannot be written.
		"Claim": {[]answer{is("ch_1")}, func(f *fixture, _ *external.Handle[in, out]) { f.exec(`ALTER TABLE tool_effect RENAME input TO moved`) }, nil, "input", 0},
		// The call pauses between tries if no row is inserted.
		"ClaimSilently": {[]answer{is("ch_1")}, func(f *fixture, _ *external.Handle[in, out]) { on(f, "INSERT", "", "") }, dedup.ErrInFlight, "", 0},
		// The old row of an identity that may be used anew cannot be deleted.
		"Forgetting": {[]answer{is("ch_1")}, func(f *fixture, h *external.Handle[in, out]) {
			_, err := h.Do(f.ctx, call("k"), in{1})
			require.NoError(t, err)
			f.exec(`DELETE FROM tool_dedup; UPDATE tool_effect SET forget_at = now()`)
			on(f, "DELETE", "", "42501")
		}, nil, "a fault", 1},
		// The call pauses between tries if an accepted operation, or one that is due for a recheck,
		// cannot be changed.
		"Taking": {[]answer{is("ch_1")}, func(f *fixture, h *external.Handle[in, out]) {
			accept(f, h, "k", 1)
			on(f, "UPDATE", "", "53100")
		}, dedup.ErrInFlight, "an act failed: dedup: taking an operation: ERROR: a fault", 0},
		"TakingSilently": {[]answer{is("ch_1")}, func(f *fixture, h *external.Handle[in, out]) {
			accept(f, h, "k", 1)
			on(f, "UPDATE", "", "")
		}, dedup.ErrInFlight, "", 0},
		"Rechecking": {[]answer{is("ch_1")}, func(f *fixture, h *external.Handle[in, out]) {
			_, err := h.Do(f.ctx, call("k"), in{1})
			require.NoError(t, err)
			f.exec(`DELETE FROM tool_dedup; UPDATE tool_effect SET due_at = now(), forget_at = now()`)
			on(f, "UPDATE", "", "42501")
		}, dedup.ErrInFlight, "an act failed: dedup: changing an operation: ERROR: a fault", 1},
		// The database fails once after an attempt without an effect; the next attempt follows.
		"ReleaseOnce": {[]answer{fails(errBusy), is("ch_1")}, func(f *fixture, _ *external.Handle[in, out]) { failOnce(f, "NEW.state = 'pending'") }, nil, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, s := newFixture(t), &script{attempts: c.attempts}
			h := add(f, s.tool(external.Tool[in, out]{}))
			c.refuses(f, h)
			limited := call("k")
			if c.is != nil {
				limited.MaxWait = lease / 4
			}
			ctx, cancel := context.WithTimeout(f.ctx, time.Minute)
			defer cancel()
			_, err := h.Do(ctx, limited, in{1})
			require.NoError(t, ctx.Err())
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
			}
			if c.is != nil || c.says == "" {
				require.ErrorIs(t, err, c.is)
			}
			sent, _ := s.count()
			require.Equal(t, c.sent, sent)
			if c.is != nil {
				var asked int
				require.NoError(t, f.pool.QueryRow(f.ctx, `SELECT last_value FROM faults`).Scan(&asked))
				require.Less(t, asked, 50)
			}
		})
	}
}

// TestOtherFingerprints has a record and an operation whose fingerprints have another length, as of
// another version. Calls get an error, and nothing is sent. The operation is parked in the end, and
// keeps an operator's verdict.
func TestOtherFingerprints(t *testing.T) {
	t.Parallel()
	f, s := newFixture(t), &script{attempts: []answer{is("ch_1")}}
	h := add(f, s.tool(external.Tool[in, out]{}))
	const says = "a fingerprint has 1 bytes; another version of the library wrote it"
	f.exec(`INSERT INTO tool_dedup (scope, tool, key, fingerprint, outcome, result, created_at, expires_at, forget_at)
		VALUES ('acme', 'charge', 'record', '\x01', 'done', '1', now(), now() + interval '1 day', now() + interval '2 days')`)
	accept(f, h, "row", 1)
	f.exec(`UPDATE tool_effect SET fingerprint = '\x01'`)
	for _, key := range []string{"record", "row"} {
		_, err := h.Do(f.ctx, call(key), in{1})
		require.ErrorContains(t, err, says, key)
		require.False(t, dedup.IsRetryable(err), key)
		require.ErrorContains(t, pgx.BeginFunc(f.ctx, f.pool, func(tx pgx.Tx) error {
			_, err := h.Accept(f.ctx, tx, call(key), in{1})
			return err
		}), says, key)
	}
	parked := f.until("row", external.StateParked)
	require.Contains(t, parked.Note, "its fingerprint or input cannot be read")
	require.ErrorContains(t, f.tools.Resolve(f.ctx, parked, external.Happened(out{"ch_1"}, "in the books")), says)
	require.Equal(t, "happened", f.lookup("row").Verdict)
	f.exec(`UPDATE tool_effect SET verdict = 'refuse', verdict_value = 'ada', due_at = now()`)
	_, err := f.tools.Advance(f.ctx, "acme", "charge", "row")
	require.ErrorContains(t, err, says)
	require.Equal(t, "refuse", f.lookup("row").Verdict)
	sent, _ := s.count()
	require.Zero(t, sent)
}
