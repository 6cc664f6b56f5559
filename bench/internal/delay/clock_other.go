//go:build !linux

package delay

import "time"

// Precise is true where a wait ends within microseconds of its time. Here it is
// Go's timers that wait, which may be late by a millisecond; so the benchmark
// shows the round trip that it has measured beside the delay that was asked for.
const Precise = false

func sleepUntil(due time.Time) error {
	<-time.After(time.Until(due))
	return nil
}
