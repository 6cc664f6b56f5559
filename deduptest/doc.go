// Package deduptest tries a write tool as production will: answers get lost,
// calls race, contexts end, backends and processes die. It says whether the tool
// has its effect once and gives every caller the same answer.
//
// [Verify] takes the tool, a scratch database with the tool's own tables and
// tool_dedup, and a way to count effects:
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
// It runs every [Scenario]: each case has a fresh key, and each fault is injected
// at a real server, by a proxy on the wire where that is possible. A fault that
// did not come about fails its scenario, since nothing was tested.
//
// A tool whose effect is one statement takes a few seconds and 330 calls, 200 of them at
// once (measured, on two cores).
//
// # Effects outside of the database
//
// [VerifyEffect] tries a tool of package external, with its own client, against a fake of
// the provider's API that asks a [Provider]. The Provider says what the real one offers,
// and keeps the book of what really happened:
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
// # What it does not try
//
// A server that crashes or fails over, answers that never come at all (those take
// Options.CommitTimeout each), and poolers between tool and server. All calls of a case come
// within seconds: a key that has the minute in it passes here, and dedupvet names it. Only
// connections of Try.Pool are counted as given back. A statement that fails in a savepoint may
// be passed over, as Postgres has it; what the effect then lacks is seen where Count counts it, or
// in Tables: name every table that the tool writes to. Of a tool of package external it kills no real
// process, halts none, cuts no connection, and tries none of the verdicts of a person.
package deduptest
