// Package inspect reads the tables of dedup for operators. The command `dedup`, the console of
// package dedupweb and the metrics of oteldedup read through it, so that all show the same.
//
// It reads large tables by an index, a page at a time. It does not count the rows of tool_dedup,
// and it reads results only for a single call.
package inspect
