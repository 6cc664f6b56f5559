// Package upstream has reports for projects that this one uses, each with a test or a benchmark
// that reproduces it.
package upstream
