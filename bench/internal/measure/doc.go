// Package measure is the arithmetic of the benchmark, free of any database: it
// loads an operation with clients, interleaves what is compared, and makes
// medians, percentiles and ratios of the samples.
package measure
