// Package agentkill kills agents at every step of a run, and counts their effects.
//
// The module of an agent hands its program over once, and has a test that asks for the kills:
//
//	func TestMain(m *testing.M) { agentkill.Main(m, agentkill.Agent{Name: "loop", Run: run}) }
//
//	func TestKills(t *testing.T) {
//		t.Parallel()
//		agentkill.Test(t, "loop")
//	}
//
//	func TestLongKills(t *testing.T) {
//		t.Parallel()
//		agentkill.TestLong(t, "loop")
//	}
//
// A run is a request of a user. Its model makes two messages of three calls of the tool
// open_ticket, and then answers with a text. Each start of a run is a new process. The process
// reports each step through a pipe, and waits until the test answers or kills it with SIGKILL. The
// test starts the run again until it ends. No test waits for a time.
//
// The steps are: the model has answered, and nothing of it is recorded; its message is
// recorded; an effect begins; an effect has written its row, and is not committed; a call is
// committed, and its answer is not delivered.
package agentkill
