// Package inspect reads the tables of dedup for people. The command `dedup` and the console of
// package dedupweb read all that they show through it, so that both say the same.
//
// Whatever it reads of a large table it finds by an index, a page at a time. It counts nothing
// in tool_dedup, and reads a result for one call only.
package inspect
