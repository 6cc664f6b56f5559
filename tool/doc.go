// Package tool makes tools out of functions: named, classified, with typed
// arguments, and guarded by package dedup, so that a write tool without a
// strategy for its repeats cannot be shipped.
package tool
