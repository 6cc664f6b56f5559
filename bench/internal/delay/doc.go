// Package delay makes a local server a remote one: a TCP proxy that adds a fixed
// delay each way. Every chunk is stamped when it arrives and written when its
// delay has passed, in order, so that pipelining costs what it costs on a real
// network: chunks under way at the same time wait at the same time, and the
// throughput is not limited.
//
// Time is the subject, so the proxy is meant to run as a process of its own, see
// [Start]: in the process that is measured, its goroutines would compete with the
// clients for the scheduler.
package delay
