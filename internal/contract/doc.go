// Package contract is the promise of package dedup as a suite of tests by topic. They
// see what a user sees: a real server, and the package's public names. What is inside
// the engine is tested beside it, in the root.
//
// What calls answer that come one after the other is drawn, and compared with a model, in
// history_test.go. The other tests are of calls at the same time, of faults and of named
// regressions. ways_test.go has the ways to make a call, where a test is of all of them.
//
// Most tests take a profile: the order, isolation level, exec mode, pooler and kind of
// call in which the promise must hold. The package has nothing to import.
package contract
