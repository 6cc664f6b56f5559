// Package way holds the ways that the benchmark compares: the library's own, the
// transaction without any of them, and what else people use. Each is a file.
//
// All have the same effect, one row in the table effects, whose ref is the key of
// the call. So that whatever a way does, the table tells: a key that stands in it
// twice was doubled.
package way
