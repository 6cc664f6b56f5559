// Package contract tests the promise of package dedup, by topic, as a user sees it: on a real
// server and through the package's exported names. Tests of the engine's internals are in the root
// package.
//
// history_test.go makes random calls one after the other and compares the answers with a model. The
// other tests cover concurrent calls, faults, and named regressions. ways_test.go has the ways to
// make a call, for tests that cover all of them.
//
// Most tests take a profile: the order, isolation level, exec mode, pooler and kind of call in
// which the promise must hold. The package exports nothing.
package contract
