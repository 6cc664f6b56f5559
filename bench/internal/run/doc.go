// Package run is the command that measures all ways in one run: one server, the
// ways interleaved round by round, each compared with the bare transaction of the
// same round.
package run
