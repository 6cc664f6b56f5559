// Package contract is the promise of package dedup as a suite of tests by topic. They
// see what a user sees: a real server, and the package's public names. What is inside
// the engine is tested beside it, in the root.
//
// Most tests take a profile: the order, isolation level, exec mode, pooler and kind of
// call in which the promise must hold. The package has nothing to import.
package contract
