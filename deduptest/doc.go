// Package deduptest tests a write tool under production's failures: answers get lost, calls race,
// contexts end, backends and processes die. It checks that the tool has its effect once and gives
// every caller the same answer. If the tool keeps no answers, later callers get dedup.ErrExpired
// instead.
//
// [Verify] needs the tool, a scratch database with the tool's own tables and tool_dedup, and a
// function that counts effects:
//
//	func TestMain(m *testing.M) {
//		deduptest.Child(openTicket) // lets Verify kill a process that calls the tool
//		os.Exit(m.Run())
//	}
//
//	func TestOpenTicket(t *testing.T) {
//		deduptest.Verify(t, databaseURL, openTicket, nil)
//	}
//
// It runs every [Scenario]. Each case has a fresh key. Each fault is injected at a real server, by
// a proxy on the wire if possible. A fault that was not applied fails its scenario, because nothing
// was tested.
//
// A tool whose effect is one statement takes a few seconds and 330 calls, 200 of them at once
// (measured, on two cores).
//
// # Effects outside the database
//
// [VerifyEffect] tests a tool of package external, with its own client, against a fake of the
// provider's API that asks a [Provider]. The Provider declares the guarantees of the real provider,
// and records the effects that happened:
//
//	provider := &deduptest.Provider{KeyKept: 24 * time.Hour}
//	api := httptest.NewServer(fakeOf(provider)) // calls provider.Act, and Find
//	deduptest.VerifyEffect(t, databaseURL, deduptest.Effect[Refund, Refunded]{
//		Tool: refundTool(api.URL), Provider: provider,
//		In:   func(n int) Refund { return Refund{Payment: fmt.Sprint("pi_", n)} },
//	})
//
// It takes about half a second and 110 calls (measured, on two cores).
//
// # Limits
//
// Verify does not test a server that crashes or fails over, answers that never come (each takes
// Options.CommitTimeout), or poolers between tool and server. All calls of a case come within
// seconds: a key that contains the minute passes here, and dedupvet reports it. Only connections of
// Try.Pool must be given back.
//
// A statement that fails in a savepoint may be ignored, as Postgres allows. A missing or doubled part
// of the effect is found if Count counts it, or if it is a row of a table that Tables names. Rows of
// Tables are only counted: if the tool updates rows, let Count return a sum that each effect raises
// by one.
//
// VerifyEffect kills and stops no real process, cuts no connection, and tests no verdicts of
// operators.
package deduptest
