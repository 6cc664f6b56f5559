// Package inspect reads the tables of dedup for people: the command `dedup` and the console
// of package dedupweb ask the same questions with it.
//
// Whatever it reads of a large table it finds by an index, a page at a time. Nothing is
// counted in tool_dedup, and no result is read.
package inspect
